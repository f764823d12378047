// Stands in for the header of Vitis HLS while loops are checked.
#pragma once
#include "hls_stream.h"

namespace hls {
namespace split {
template <class T_, int N_, int IN_ = 0, int OUT_ = 0>
struct load_balance {
    stream<T_> in, out[N_];
};
template <class T_, int N_, int DEPTH_ = 0>
struct round_robin {
    stream<T_> in, out[N_];
};
}  // namespace split
namespace merge {
template <class T_, int N_, int OUT_ = 0, int IN_ = 0>
struct load_balance {
    stream<T_> in[N_], out;
};
template <class T_, int N_, int DEPTH_ = 0>
struct round_robin {
    stream<T_> in[N_], out;
};
}  // namespace merge
}  // namespace hls
