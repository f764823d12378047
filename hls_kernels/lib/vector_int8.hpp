// Bytes in vectors: what the int8 cores need beside vector.hpp.
//
//   `dot4(sum, x, w)`                    sum[i] + the products of the 4 unsigned bytes in lane i of x with the 4 signed bytes
//                                        in lane i of w, exact in 32 bits.
//   `dot_inputs(ivec16), dot_weights(ivec16)`
//                                        x and w as dot4 takes them: where the host has no instruction for four products,
//                                        they are taken apart once and used many times.
//   `load_quads(local, at)`              64 bytes of a local array as an ivec16: lane i holds the bytes 4 i to 4 i + 3.
//   `quad_at(local, at)`                 4 bytes of a local array as an int32.
//   `quads_of(a, b, c, d)`               lane i holds the bytes a[i], b[i], c[i], d[i] of local arrays.
//   `load_bytes(region, at, lanes, is_signed)`
//                                        the first `lanes` (at most 16) bytes, one a lane, zeros behind them.
//   `store_bytes(region, at, x, lanes)`  the low 8 bits of the first `lanes` lanes.
//   `byte_at(region, at), store_byte(region, at, x)`.
//   `copy_bytes_in(local, to, region, at, count), fill_bytes(local, to, count, value)`.
//   `bvec64`                             64 bytes, one beat: vmax(a, b, is_signed).
//   `load_beat(region, at, lanes), store_beat(region, at, x, lanes)`
//                                        its first `lanes` bytes, zeros behind them.
//   `byte_table(region, at, flip), lookup(table, x)`
//                                        256 bytes, and what they have for each byte of x ^ flip: of a bvec64, or of the
//                                        lanes of an ivec16, bytes in either sign.
//   `to_nearest(vec16)`                  to the nearest integer, ties to even; NaN and out of range: undefined value.
//   `vmin, vmax, vclamp`                 of ivec16.
//
// Byte offsets of a region count from its first byte.
#pragma once
#include "vector.hpp"

#ifdef __SYNTHESIS__
#include "vector_int8_hls.hpp"
#else
#include "vector_int8_gnu.hpp"
#include "vector_nearest_gnu.hpp"
#endif

namespace fpga {

FPGA_INLINE ivec16 vmin(const ivec16& a, const ivec16& b) { return select(vlt(a, b), a, b); }
FPGA_INLINE ivec16 vmax(const ivec16& a, const ivec16& b) { return select(vgt(a, b), a, b); }
FPGA_INLINE ivec16 vclamp(const ivec16& x, const ivec16& low, const ivec16& high) { return vmin(vmax(x, low), high); }

// What flips a byte between unsigned and signed with the same order, in all four bytes of a lane.
constexpr int32_t FLIP_BYTES = static_cast<int32_t>(0x80808080u);

}  // namespace fpga
