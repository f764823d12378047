// Numbers of bfloat16 in vectors: what gemm_bf16 needs beside vector.hpp and narrow.hpp. They lie as patterns of 16 bits, one
// in a lane of an ivec16, or in pairs: the number of the lower address in the low half of a lane.
//
//   `dot2(sum, x, w)`                    sum[i] + the two products of the pairs in lane i of x and w, in float32; a subnormal
//                                        number may count as 0.
//   `dot_pairs(ivec16)`                  x or w as dot2 takes them: where the host has no instruction for two products, pairs
//                                        are taken apart once and used many times.
//   `load_halves(region, at, lanes)`     the first `lanes` (at most 16) patterns from element `at` on, zeros behind them.
//   `load_pairs(region, at)`             32 numbers from element `at` on.
//   `neighbours(low, high)`              32 floats, rounded, as 16 pairs: those of `low` first.
//   `side_by_side(even, odd)`            lane i: even[i] and odd[i], rounded.
//   `store_bf16(region, at, x)`          x, rounded, from element `at` on.
#pragma once
#include "lib/narrow.hpp"
#include "lib/vector.hpp"

#ifdef __SYNTHESIS__
#include "vector_bf16_hls.hpp"
#else
#include "vector_bf16_gnu.hpp"
#endif
