// Stands in for the header of Vitis HLS.
#pragma once
#include "ap_int.h"
#include <hls_stream.h>

#define AXIS_ENABLE_DATA 0b00000001
#define AXIS_ENABLE_DEST 0b00000010
#define AXIS_ENABLE_ID 0b00000100
#define AXIS_ENABLE_KEEP 0b00001000
#define AXIS_ENABLE_LAST 0b00010000
#define AXIS_ENABLE_STRB 0b00100000
#define AXIS_ENABLE_USER 0b01000000
#define AXIS_ENABLE_ALL 0b01111111
#define AXIS_DISABLE_DATA (AXIS_ENABLE_ALL ^ AXIS_ENABLE_DATA)
#define AXIS_DISABLE_DEST (AXIS_ENABLE_ALL ^ AXIS_ENABLE_DEST)
#define AXIS_DISABLE_ID (AXIS_ENABLE_ALL ^ AXIS_ENABLE_ID)
#define AXIS_DISABLE_KEEP (AXIS_ENABLE_ALL ^ AXIS_ENABLE_KEEP)
#define AXIS_DISABLE_LAST (AXIS_ENABLE_ALL ^ AXIS_ENABLE_LAST)
#define AXIS_DISABLE_STRB (AXIS_ENABLE_ALL ^ AXIS_ENABLE_STRB)
#define AXIS_DISABLE_USER (AXIS_ENABLE_ALL ^ AXIS_ENABLE_USER)
#define AXIS_DISABLE_ALL 0

namespace hls {

namespace axis_detail {
template <class T_>
struct element {
    typedef T_ type;
    static constexpr std::size_t bytes = sizeof(T_);
};
template <>
struct element<void> {  // no data: a place of its own, which nobody reads
    typedef ap_uint<1> type;
    static constexpr std::size_t bytes = 1;
};
}  // namespace axis_detail

// Signals that are not enabled are members, too; they do not reach a card.
template <class T_, std::size_t U_ = 0, std::size_t ID_ = 0, std::size_t DEST_ = 0,
          uint8_t ENABLED_ = (AXIS_ENABLE_KEEP | AXIS_ENABLE_LAST | AXIS_ENABLE_STRB), bool STRICT_ = false>
struct axis {
    static constexpr std::size_t bytes = axis_detail::element<T_>::bytes;
    typename axis_detail::element<T_>::type data;
    ap_uint<bytes> keep;
    ap_uint<bytes> strb;
    ap_uint<(U_ ? U_ : 1)> user;
    ap_uint<1> last;
    ap_uint<(ID_ ? ID_ : 1)> id;
    ap_uint<(DEST_ ? DEST_ : 1)> dest;
#define __HLS_SIGNAL(NAME)                             \
    decltype(NAME) get_##NAME() const { return NAME; } \
    void set_##NAME(const decltype(NAME)& x) { NAME = x; }
#define __HLS_SIGNALS  \
    __HLS_SIGNAL(data) \
    __HLS_SIGNAL(keep) \
    __HLS_SIGNAL(strb) \
    __HLS_SIGNAL(user) \
    __HLS_SIGNAL(last) \
    __HLS_SIGNAL(id)   \
    __HLS_SIGNAL(dest)
    __HLS_SIGNALS
    void keep_all() { keep = -1; }
    void strb_all() { strb = -1; }
};

template <class T_, uint8_t ENABLED_ = (AXIS_ENABLE_KEEP | AXIS_ENABLE_LAST | AXIS_ENABLE_STRB), std::size_t U_ = 0,
          std::size_t ID_ = 0, std::size_t DEST_ = 0, bool STRICT_ = true>
using axis_data = axis<T_, U_, ID_, DEST_, ENABLED_, STRICT_>;
template <std::size_t U_, uint8_t ENABLED_ = (AXIS_ENABLE_KEEP | AXIS_ENABLE_LAST | AXIS_ENABLE_STRB),
          std::size_t ID_ = 0, std::size_t DEST_ = 0, bool STRICT_ = false>
using axis_user = axis<void, U_, ID_, DEST_, ENABLED_, STRICT_>;

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
    __HLS_SIGNALS
    void keep_all() { keep = -1; }
    void strb_all() { strb = -1; }
};

template <int W_, int U_ = 0, int ID_ = 0, int DEST_ = 0>
struct ap_axis : ap_axiu<W_, U_, ID_, DEST_> {
    ap_int<W_> data;
    __HLS_SIGNAL(data)
};
#undef __HLS_SIGNALS
#undef __HLS_SIGNAL

template <int W_, int U_ = 0, int ID_ = 0, int DEST_ = 0>
using qdma_axis = ap_axiu<W_, U_, ID_, DEST_>;
