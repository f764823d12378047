// How many bits the numbers of a command have, and integers of as many.
#pragma once
#include "elements.hpp"

namespace engine {

// Bits of what a command counts, without a sign; check.hpp refuses what has more. Registers and adders are as wide as that.
constexpr int SMALL_BITS = 12;                                 // kernels, strides, heads, images, taps
constexpr int SIZE_BITS = 20;                                  // rows and columns of a map, bands, channels of a group
constexpr int PIXEL_BITS = 23;                                 // pixels of a map
constexpr int ELEMENT_BITS = 27;                               // elements of a plane
constexpr int STEP_BITS = 14;                                  // steps of a tile, groups of a band
constexpr int POSITION_BITS = 17;                              // positions in the window
constexpr int BLOCK_BITS = 14;                                 // blocks of channels, tiles
constexpr int LOAD_BITS = 20;                                  // windows or sets that a head loads
constexpr int COMMAND_BITS = 16;                               // commands of a list
constexpr int LINE_SHIFT = BEAT == 4 ? 2 : BEAT == 2 ? 1 : 0;  // pixels of a line

// Counters and other numbers of few bits. They have a sign more than they need, so that differences of two are numbers, too.
// \tparam BITS Bits of the number without its sign.
template <int BITS>
using number = ap_int<BITS + 1>;

// A choice between two numbers in the width of the result.
// \tparam T Type of the result.
template <class T>
T when(bool condition, T yes, T no) {
#pragma HLS inline
    return condition ? yes : no;
}

constexpr int TILE_BITS = bits_for(SET_TILES + 1);   // tiles of a set
constexpr int ROW_BITS = bits_for(WINDOW_ROWS + 1);  // rows of the window's banks

// The largest trip counts of loops whose bound a command gives, for `#pragma HLS loop_tripcount`. They follow from the
// widths above and from the sizes that check.hpp refuses.
constexpr int MOST_COMMANDS = (1 << COMMAND_BITS) - 1;     // of a list
constexpr int MOST_HEADS = (1 << SMALL_BITS) - 1;          // heads, outer times inner ones
constexpr int MOST_LOADS = (1 << LOAD_BITS) - 1;           // loads of the window or of the weights for a head
constexpr int MOST_INPUT_BEATS = (1 << ELEMENT_BITS) - 1;  // beats of a burst of the input
constexpr int MOST_MAP_WORDS = 8 << PIXEL_BITS;            // blocks times pixels of a feature map
constexpr int MOST_DEPTH = WEIGHT_STEPS / PARTS;           // blocks of input channels, without kernel taps
constexpr int MOST_MAP_RUN = MOST_DEPTH > SET_BLOCKS ? MOST_DEPTH : SET_BLOCKS;  // blocks of a map as second operand
constexpr int MOST_BAND_PIXELS = P * WINDOW_ROWS;              // output pixels of a band: its input fits the window
constexpr int MOST_SEGMENTS = MOST_BAND_PIXELS / SEGMENT + 2;  // bursts of a band of one block
// Steps of a set of tiles for a group of pixels: of products, and of a maximum, which the array sees one tap of.
constexpr int MOST_SET_STEPS = WEIGHT_STEPS > SET_TILES* PARTS ? WEIGHT_STEPS : SET_TILES* PARTS;
constexpr int MOST_SET_READS = WEIGHT_STEPS > SET_TILES* TAPS* PARTS ? WEIGHT_STEPS : SET_TILES* TAPS* PARTS;

static_assert(2 * P * WINDOW_ROWS + (2 << SMALL_BITS) <= 1 << POSITION_BITS, "positions of the window");

}  // namespace engine
