// How many bits the numbers of a command have, and integers of as many.
#pragma once
#include "elements.hpp"

namespace engine {

// Bits of what a command counts, without a sign; check.hpp refuses what has more. Registers and adders are as wide as that.
constexpr int SMALL_BITS = 12;                                 // kernels, strides, heads, images, taps
constexpr int SIZE_BITS = 20;                                  // rows and columns of a map, bands, channels of a group
constexpr int PIXEL_BITS = 26;                                 // pixels of a map
constexpr int ELEMENT_BITS = 30;                               // elements of a plane
constexpr int STEP_BITS = 14;                                  // steps of a tile, groups of a band
constexpr int POSITION_BITS = 17;                              // positions in the window
constexpr int BLOCK_BITS = 14;                                 // blocks of channels, tiles
constexpr int LOAD_BITS = 24;                                  // windows or sets that a head loads
constexpr int COMMAND_BITS = 20;                               // commands of a list
constexpr int LINE_SHIFT = BEAT == 4 ? 2 : BEAT == 2 ? 1 : 0;  // pixels of a line

// Counters and other numbers of few bits. They have a sign more than they need, so that differences of two are numbers, too.
template <int BITS>
using number = ap_int<BITS + 1>;

// A choice between two numbers in the width of the result.
template <class T>
T when(bool condition, T yes, T no) {
#pragma HLS inline
    return condition ? yes : no;
}

constexpr int TILE_BITS = bits_for(SET_TILES + 1);   // tiles of a set
constexpr int ROW_BITS = bits_for(WINDOW_ROWS + 1);  // rows of the window's banks
static_assert(2 * P * WINDOW_ROWS + (2 << SMALL_BITS) <= 1 << POSITION_BITS, "positions of the window");

}  // namespace engine
