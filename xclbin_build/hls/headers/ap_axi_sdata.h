// Stands in for the header of Vitis HLS while loops are checked.
#pragma once
#include "ap_int.h"
#include "hls_stream.h"

namespace hls {

template <class T, int U = 0, int ID = 0, int DEST = 0>
struct axis {
    T data;
    ap_uint<(sizeof(T))> keep;
    ap_uint<(sizeof(T))> strb;
    ap_uint<(U ? U : 1)> user;
    ap_uint<1> last;
    ap_uint<(ID ? ID : 1)> id;
    ap_uint<(DEST ? DEST : 1)> dest;
};

}  // namespace hls

template <int W, int U = 0, int ID = 0, int DEST = 0>
struct ap_axiu {
    ap_uint<W> data;
    ap_uint<(W + 7) / 8> keep;
    ap_uint<(W + 7) / 8> strb;
    ap_uint<(U ? U : 1)> user;
    ap_uint<1> last;
    ap_uint<(ID ? ID : 1)> id;
    ap_uint<(DEST ? DEST : 1)> dest;
    ap_uint<W> get_data() const { return data; }
    void set_data(const ap_uint<W>& x) { data = x; }
    void set_last(int x) { last = x; }
    int get_last() const { return last; }
    void keep_all() { keep = -1; }
    void set_keep(const ap_uint<(W + 7) / 8>& x) { keep = x; }
};

template <int W, int U = 0, int ID = 0, int DEST = 0>
struct ap_axis : ap_axiu<W, U, ID, DEST> {
    ap_int<W> data;
};

template <int W, int U = 0, int ID = 0, int DEST = 0>
using qdma_axis = ap_axiu<W, U, ID, DEST>;
