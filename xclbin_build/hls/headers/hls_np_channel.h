// Stands in for the header of Vitis HLS while loops are checked.
#pragma once
#include "hls_stream.h"

namespace hls {
namespace split {
template <class T, int N, int IN = 0, int OUT = 0>
struct load_balance {
    stream<T> in, out[N];
};
template <class T, int N, int DEPTH = 0>
struct round_robin {
    stream<T> in, out[N];
};
}  // namespace split
namespace merge {
template <class T, int N, int OUT = 0, int IN = 0>
struct load_balance {
    stream<T> in[N], out;
};
template <class T, int N, int DEPTH = 0>
struct round_robin {
    stream<T> in[N], out;
};
}  // namespace merge
}  // namespace hls
