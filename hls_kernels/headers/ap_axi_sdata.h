// Stands in for the header of Vitis HLS.
#pragma once
#include "ap_int.h"
#include <hls_stream.h>

namespace hls {

template <class T_, int U_ = 0, int ID_ = 0, int DEST_ = 0>
struct axis {
    T_ data;
    ap_uint<(sizeof(T_))> keep;
    ap_uint<(sizeof(T_))> strb;
    ap_uint<(U_ ? U_ : 1)> user;
    ap_uint<1> last;
    ap_uint<(ID_ ? ID_ : 1)> id;
    ap_uint<(DEST_ ? DEST_ : 1)> dest;
};

}  // namespace hls

template <int W_, int U_ = 0, int ID_ = 0, int DEST_ = 0>
struct ap_axiu {
    ap_uint<W_> data;
    ap_uint<(W_ + 7) / 8> keep;
    ap_uint<(W_ + 7) / 8> strb;
    ap_uint<(U_ ? U_ : 1)> user;
    ap_uint<1> last;
    ap_uint<(ID_ ? ID_ : 1)> id;
    ap_uint<(DEST_ ? DEST_ : 1)> dest;
    ap_uint<W_> get_data() const { return data; }
    void set_data(const ap_uint<W_>& x) { data = x; }
    void set_last(int x) { last = x; }
    int get_last() const { return last; }
    void keep_all() { keep = -1; }
    void set_keep(const ap_uint<(W_ + 7) / 8>& x) { keep = x; }
};

template <int W_, int U_ = 0, int ID_ = 0, int DEST_ = 0>
struct ap_axis : ap_axiu<W_, U_, ID_, DEST_> {
    ap_int<W_> data;
};

template <int W_, int U_ = 0, int ID_ = 0, int DEST_ = 0>
using qdma_axis = ap_axiu<W_, U_, ID_, DEST_>;
