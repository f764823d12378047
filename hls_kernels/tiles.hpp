// Sizes of the local memories and arrays of the cores: the defaults. xclbin_build writes another file of this name when
// a recipe overrides them, and records the values in the manifest. Sizes with _FLOATS count floats.
#pragma once

namespace fpga {
namespace tile {

// The MAC array of conv2d and gemm: ROWS pixels or matrix rows by up to MAX_VECTORS * 16 output channels.
constexpr int ROWS = 7;
constexpr int MAX_VECTORS = 4;
constexpr int K_BLOCK = 2048;       // steps of the reduction that stay in the cache of weights
constexpr int SLAB_FLOATS = 98304;  // rows of the input with their halo
constexpr int OUT_FLOATS = 65536;   // partial sums between blocks of k
constexpr int KOFF = 16384;         // table of slab offsets, one per step of the reduction

constexpr int WINOGRAD_INPUT_FLOATS = 1048576;   // transformed patches of a block of tiles
constexpr int WINOGRAD_PRODUCT_FLOATS = 131072;  // their products with a panel's transformed weights

constexpr int POINTWISE_BLOCK = 256;   // elements that a micro-instruction handles at once
constexpr int POINTWISE_PROGRAM = 64;  // instructions of a micro-program
constexpr int POINTWISE_CONSTANTS = 32;
constexpr int REDUCE_ROW = 16384;  // a longer row is read once per pass from the bank
constexpr int FFT_POINTS = 1024;   // of a transform in a lane; a single one may have 16 times as many

}  // namespace tile
}  // namespace fpga
