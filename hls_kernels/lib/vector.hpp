// The vector type of all cores: 16 floats, one 512-bit beat of a memory bank.
//
// Under g++ a vec16 is made of GNU vectors, under Vitis HLS it is hls::vector<float, 16>. Both headers give:
//
//   `vec16(float), ivec16(int32_t)`      every lane holds the value.
//   `+ - * /`                            of vec16, and with & | ^ << >> of ivec16. In ivec16 + - * wrap around, / rounds
//                                        toward zero, and >> is arithmetic.
//   `+= -= *=, v[lane]`                  in place, and to read a lane.
//   `veq vne vlt vle vgt vge(a, b)`      mask: an ivec16 of 0 or -1; a comparison with NaN is false but for vne.
//   `select(mask, a, b)`                 lane by lane mask ? a : b, of vec16 or ivec16.
//   `any(mask)`                          whether a lane of the mask is set.
//   `lane_numbers()`                     0, 1, ... 15.
//   `rotate_lanes<N>(x)`                 lane i of the result is lane (i + N) % 16 of x.
//   `doubled_lanes<HALF>(x)`             lane i of the result is lane 8 HALF + i / 2 of the ivec16 x.
//   `even_lanes(a, b), odd_lanes(a, b)`  the lanes 0, 2, ... 14 (1, 3, ... 15) of the ivec16 a, then those of b.
//   `bits_of(vec16), from_bits(ivec16)`  the same 32-bit patterns seen as the other type.
//   `to_float(ivec16), to_int(vec16)`    conversion; to_int rounds toward zero, NaN and out of range: undefined value.
//   `load(pointer, at), store(pointer, at, x)`
//                                        16 floats from float offset `at`, any alignment; the pointer is that of a
//                                        region (vec16*) or of a local array (float*).
//   `load_aligned, store_aligned`        the same where `at` is a multiple of 16: one beat.
//   `load_lanes(region, at, lanes)`      the first `lanes` floats, zeros behind them; touches nothing else.
//   `store_lanes(region, at, x, lanes)`  stores the first `lanes` floats only.
//   `load_some, store_some`              load_lanes and store_lanes, or load and store where `lanes` is 16 or more.
//   `transpose(rows)`                    the 16 x 16 matrix in vec16 rows[16].
//   `scalar_at(region, at), store_scalar(region, at, x)`.
//   `int_at(region, at)`                 the same bits as an int32.
//   `copy_in(local, to, region, at, count)`  count floats from a region into a local array.
//   `fill(local, to, count, value)`      count floats of a local array.
//
//   `vsqrt(x)`                           the square root, rounded rightly.
//   `opaque(x)`                          x, a vector or a float, unchanged; a product in it is not fused with a later
//                                        addition. Where a compiler could fuse either of two products, or fuse on one
//                                        path and not on another, this leaves one choice, so that all instruction
//                                        sets with FMA agree.
//
// Other mathematical functions (rounding, exp, ...) are in math.hpp.
#pragma once
#include <cstdint>

namespace fpga {

constexpr int VEC = 16;

}  // namespace fpga

// UNROLL stands between a loop's label and its `for`; Vitis HLS reads `#pragma HLS unroll` in the body instead.
#ifdef __SYNTHESIS__
#define UNROLL
#define FPGA_INLINE inline
#include "vector_hls.hpp"
#else
#define UNROLL _Pragma("GCC unroll 64")
#define FPGA_INLINE inline __attribute__((always_inline))
#include "vector_gnu.hpp"
#endif

namespace fpga {

FPGA_INLINE vec16 load_some(const vec16* region, int64_t at, int32_t lanes) {
    return lanes >= VEC ? load(region, at) : load_lanes(region, at, lanes);
}

FPGA_INLINE void store_some(vec16* region, int64_t at, const vec16& x, int32_t lanes) {
    if (lanes >= VEC)
        store(region, at, x);
    else
        store_lanes(region, at, x, lanes);
}

FPGA_INLINE vec16 vneg(const vec16& x) { return from_bits(bits_of(x) ^ ivec16(INT32_MIN)); }

FPGA_INLINE vec16 vabs(const vec16& x) { return from_bits(bits_of(x) & ivec16(INT32_MAX)); }

// max(0, x), NaN stays NaN.
FPGA_INLINE vec16 vrelu(const vec16& x) { return select(vgt(vec16(0.0f), x), vec16(0.0f), x); }

// torch.minimum and torch.maximum: NaN if either is NaN.
FPGA_INLINE vec16 vmin(const vec16& a, const vec16& b) { return select(vne(a, a), a, select(vlt(a, b), a, b)); }

FPGA_INLINE vec16 vmax(const vec16& a, const vec16& b) { return select(vne(a, a), a, select(vgt(a, b), a, b)); }

FPGA_INLINE float vmax(float a, float b) { return a != a || a > b ? a : b; }

// min(max(x, low), high) where the limits are no NaN; NaN stays NaN.
FPGA_INLINE vec16 vclamp(const vec16& x, const vec16& low, const vec16& high) {
    const vec16 y = select(vgt(low, x), low, x);
    return select(vlt(high, y), high, y);
}

// Of two signed integers, the narrower one widened.
// \tparam A Type of the first operand.
// \tparam B Type of the second operand.
template <class A, class B>
constexpr FPGA_INLINE auto minimum(A a, B b) -> decltype(a + b) {
    return a < b ? a : b;
}
// \tparam A Type of the first operand.
// \tparam B Type of the second operand.
template <class A, class B>
FPGA_INLINE auto maximum(A a, B b) -> decltype(a + b) {
    return a > b ? a : b;
}
FPGA_INLINE int32_t ceil_div(int32_t a, int32_t b) { return (a + b - 1) / b; }
// i * stride in the arithmetic of 32-bit offsets: modulo 2^32, which is exact for what lies in a region.
FPGA_INLINE uint32_t offset_of(int32_t i, int32_t stride) {
    return static_cast<uint32_t>(i) * static_cast<uint32_t>(stride);
}
FPGA_INLINE int32_t round_up(int32_t a, int32_t b) { return ceil_div(a, b) * b; }

// First of the `count` items that belong to slice `slice` of `slices`; the slice ends where the next one begins.
FPGA_INLINE int64_t slice_begin(int64_t count, uint32_t slice, uint32_t slices) { return count * slice / slices; }

}  // namespace fpga
