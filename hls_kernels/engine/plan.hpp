// What all processes derive from a command: loop counts, the geometry of the window, bands. A process of its own works it out
// once a command and ahead of the others (processes/fetch.hpp), because of the divisions; the CPU schedule calls it as well.
//
// The window: the position of a pixel of the input is a linear index, its bank is position % P and its row position / P. The
// taps of a kernel then are constant distances, so the P pixels of a group always lie in P different banks, whatever the
// kernel, padding or dilation. Strides have phase planes, one for each row % stride and column % stride, in which the
// distance is constant again. Padding is a mask on what is read; nothing is stored for it. Addresses wrap around at the end
// of a bank: only what the mask hides lies there.
#pragma once
#include <cstdint>

#include "elements.hpp"
#include "record.hpp"

namespace engine {

// Bits of what a command counts, without a sign; check.hpp refuses what has more. Registers and adders are as wide as that.
constexpr int SMALL_BITS = 12;     // kernels, strides, heads, images, taps
constexpr int SIZE_BITS = 20;      // rows and columns of a map, bands, channels of a group
constexpr int PIXEL_BITS = 26;     // pixels of a map
constexpr int STEP_BITS = 16;      // steps of a tile, groups of a band
constexpr int POSITION_BITS = 17;  // positions in the window
constexpr int BLOCK_BITS = 16;     // blocks of channels, tiles
constexpr int LOAD_BITS = 24;      // windows or sets that a head loads

// Counters and other numbers of few bits. They have a sign more than they need, so that differences are the same numbers in
// ap_int's arithmetic, which grows, and in that of 64 bits.
template <int BITS>
using number = ap_int<BITS + 1>;

// A choice between two numbers in the width of the result.
template <class T>
T when(bool condition, T yes, T no) {
#pragma HLS inline
    return condition ? yes : no;
}

// Bits that hold 0 to n - 1.
constexpr int bits_for(int n) { return n <= 2 ? 1 : 1 + bits_for((n + 1) / 2); }
constexpr int TILE_BITS = bits_for(SET_TILES + 1);   // tiles of a set
constexpr int ROW_BITS = bits_for(WINDOW_ROWS + 1);  // rows of the window's banks
static_assert(2 * P * WINDOW_ROWS + (2 << SMALL_BITS) <= 1 << POSITION_BITS, "positions of the window");

struct plan_t {
    int32_t heads;            // heads[0] * heads[1]
    int32_t bands;            // of an image
    int32_t windows;          // of a head: images * bands
    int32_t tiles;            // of output channels
    int32_t sets;             // of tiles whose weights lie in the memory together
    int32_t window_loads;     // of a head: how often the window is filled, ...
    int32_t window_passes;    // ... and how many sets are then computed with it
    int32_t set_loads;        // the same of the sets of weights
    int32_t set_passes;       // and windows
    int32_t sets_outside;     // 1: passes go through the windows for each set; 0: the other way round
    int32_t columns;          // of the kernel, in words: less than kernel[1] where the input is folded
    int32_t taps;             // kernel[0] * columns
    int32_t steps;            // of the array for a tile and a group of pixels
    int32_t grouped;          // 1: a tile reads only some blocks of the input
    int32_t group_skip;       // input channels that the next tile lies further, whole groups
    int32_t group_rest;       // and output channels that are left then
    int32_t pitch;            // positions from one row to the next
    int32_t phase_rows;       // rows of a phase plane
    int32_t planes[2];        // phase planes: rows, columns
    int32_t plane;            // positions of a phase plane
    int32_t block_rows;       // rows of the banks that a block of channels takes
    int32_t pitch_quotient;   // P / pitch
    int32_t pitch_rest;       // P % pitch
    int32_t pad_quotient;     // padding above / stride
    int32_t pad_rest;         // padding above % stride
    int32_t tap_stride;       // between two columns of the window that neighbouring pixels of the output read
    int32_t tap_step;         // from one tap to the next, in columns of the input
    int32_t tap_quotient[2];  // distance of neighbouring taps / stride: rows, columns
    int32_t tap_rest[2];      // and what is left, in phases
    int32_t tap_x;            // column of the input that the first tap of the first pixel reads; negative: padding
    int32_t tap_column;       // the same in its phase plane
    int32_t tap_phase;        // and the phase
    int32_t row_elements;     // of a row of the input in memory, of one block or folded
    int32_t in_plane;         // lines of a block of the input
    int32_t out_plane;        // and of the output
};

// Rounded up; a and b are positive, or a is zero.
inline int32_t divide_up(int32_t a, int32_t b) { return (a + b - 1) / b; }
// Rounded down; b is positive.
inline int32_t divide_down(int32_t a, int32_t b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }
inline int32_t smaller(int32_t a, int32_t b) { return a < b ? a : b; }
inline int32_t larger(int32_t a, int32_t b) { return a > b ? a : b; }

// Several pixels of few channels side by side in a word (layout.hpp).
inline bool folded(const mac_command& c) { return c.pixel_channels < CHANNELS; }
// Pixels of a word.
inline int32_t fold_of(const mac_command& c) { return CHANNELS / c.pixel_channels; }

inline plan_t plan_of(const mac_command& c) {
    plan_t p;
    p.heads = c.heads[0] * c.heads[1];
    p.bands = divide_up(c.out_height, c.band_rows);
    p.windows = c.images * p.bands;
    p.tiles = divide_up(c.out_blocks, c.tile_blocks);
    p.sets = divide_up(p.tiles, c.set_tiles);
    // One set stays where it is, and so does one window.
    p.sets_outside = p.sets == 1 || (p.windows > 1 && c.order == ORDER_SETS);
    p.window_loads = p.sets_outside ? p.sets * p.windows : p.windows;
    p.window_passes = p.sets_outside ? 1 : p.sets;
    p.set_loads = p.sets_outside ? p.sets : p.sets * p.windows;
    p.set_passes = p.sets_outside ? p.windows : 1;

    const bool fold = folded(c);
    p.columns = fold ? divide_up(c.kernel[1], fold_of(c)) : c.kernel[1];
    p.taps = c.kernel[0] * p.columns;
    p.steps = p.taps * c.tile_depth * PARTS;
    p.grouped = c.tile_depth < c.in_blocks;
    const int32_t tile_channels = c.tile_blocks * CHANNELS;
    p.group_skip = tile_channels / c.group_out * c.group_in;
    p.group_rest = tile_channels % c.group_out;

    // A row of a folded input has a word for each place where a tap may begin.
    const int32_t folded_columns = c.out_width + (p.columns - 1) * (fold_of(c) / c.stride[1]);
    p.planes[0] = c.kernel[0] == 1 ? 1 : c.stride[0];
    p.planes[1] = fold || c.kernel[1] == 1 ? 1 : c.stride[1];
    p.pitch = fold ? folded_columns : larger(divide_up(c.in_width, c.stride[1]), c.out_width);
    const int32_t rows = (smaller(c.band_rows, c.out_height) - 1) * c.stride[0] + (c.kernel[0] - 1) * c.dilation[0] + 1;
    p.phase_rows = divide_up(rows, c.stride[0]);
    p.plane = p.phase_rows * p.pitch;
    // Words of two phases of a row are written at once: they must lie in different banks.
    if (p.planes[1] > 1) p.plane += (2 + P - p.plane % P) % P;
    p.block_rows = divide_up(p.planes[0] * p.planes[1] * p.plane, P);
    p.pitch_quotient = P / p.pitch;
    p.pitch_rest = P % p.pitch;
    p.pad_quotient = c.padding[0] / c.stride[0];
    p.pad_rest = c.padding[0] % c.stride[0];
    p.tap_stride = fold ? 1 : c.stride[1];
    p.tap_step = fold ? fold_of(c) / c.stride[1] : c.dilation[1];
    p.tap_quotient[0] = c.dilation[0] / c.stride[0];
    p.tap_rest[0] = c.dilation[0] % c.stride[0];
    p.tap_quotient[1] = p.tap_step / p.tap_stride;
    p.tap_rest[1] = p.tap_step % p.tap_stride;
    p.tap_x = fold ? 0 : -c.padding[1];
    p.tap_column = divide_down(p.tap_x, p.tap_stride);
    p.tap_phase = p.tap_x - p.tap_column * p.tap_stride;
    p.row_elements = c.in_width * c.pixel_channels;
    p.in_plane = divide_up(c.in_height * p.row_elements, LINE_ELEMENTS);
    p.out_plane = divide_up(c.out_height * c.out_width, BEAT);
    return p;
}

// A command on its way through the processes.
struct job_t {
    mac_command c;
    plan_t p;
    int32_t position;  // in the list
    bool runs;         // on the MAC side; false: its opcode is none of the engine's, and nothing is done, unless ...
    bool vector;       // ... it is one of the vector side's, whose processes have its record
};

// Rows of the output that a window is for, and what of the input is in it.
struct band_t {
    int32_t y0;      // first row of the output
    int32_t rows;    // of the output
    int32_t groups;  // of P positions that the array takes for it
    int32_t top;     // row of the input in which the window begins; may lie above it
    int32_t first;   // rows of the input that exist; there are none if last < first
    int32_t last;
};

inline band_t band_of(const job_t& job, int32_t band) {
#pragma HLS inline
    const mac_command& c = job.c;
    band_t b;
    b.y0 = band * c.band_rows;
    b.rows = smaller(c.out_height - b.y0, c.band_rows);
    b.groups = divide_up((b.rows - 1) * job.p.pitch + c.out_width, P * INTERLEAVE) * INTERLEAVE;
    b.top = b.y0 * c.stride[0] - c.padding[0];
    b.first = larger(b.top, 0);
    b.last = smaller(b.top + (b.rows - 1) * c.stride[0] + (c.kernel[0] - 1) * c.dilation[0], c.in_height - 1);
    return b;
}

// A pass computes a set of tiles for a window. All processes behind the window go through the passes of a head in the same
// order.
struct pass_t {
    int32_t image, band, set;
};
inline void next_pass(pass_t& at, const job_t& job) {
#pragma HLS inline
    const bool last_set = at.set + 1 == job.p.sets, last_band = at.band + 1 == job.p.bands;
    const bool last_window = last_band && at.image + 1 == job.c.images;
    const bool window_moves = job.p.sets_outside || last_set, set_moves = !job.p.sets_outside || last_window;
    if (window_moves && last_band) at.image = last_window ? 0 : at.image + 1;
    if (window_moves) at.band = last_band ? 0 : at.band + 1;
    if (set_moves) at.set = last_set ? 0 : at.set + 1;
}

// Tiles of a set, and blocks of a tile: the last ones may be smaller.
inline int32_t tiles_of_set(const job_t& job, int32_t set) {
    return smaller(job.c.set_tiles, job.p.tiles - set * job.c.set_tiles);
}
inline int32_t blocks_of_tile(const job_t& job, int32_t tile) {
    return smaller(job.c.tile_blocks, job.c.out_blocks - tile * job.c.tile_blocks);
}
inline int32_t blocks_of_set(const job_t& job, int32_t set) {
    return smaller(job.c.set_tiles * job.c.tile_blocks, job.c.out_blocks - set * job.c.set_tiles * job.c.tile_blocks);
}

// What lies outside the input.
inline element_t pad_of(const mac_command& c) {
#pragma HLS inline
#if ENGINE_ELEMENT == 2
    return float_of_bits(static_cast<uint32_t>(c.pad));
#else
    return static_cast<element_t>(c.pad);
#endif
}

// Lines of the output that a band of a tile's block begins and ends in, within the block's plane.
struct lines_t {
    int32_t first, count;
    int32_t skip;  // words of the first line that belong to the band before
    int32_t rest;  // words of the last line that belong to the band; 0: all
};
inline lines_t lines_of(const job_t& job, const band_t& b, bool sums) {
#pragma HLS inline
    const int32_t begin = b.y0 * job.c.out_width, end = begin + b.rows * job.c.out_width;
    lines_t l;
    l.first = sums ? begin : begin / BEAT;
    l.count = (sums ? end : divide_up(end, BEAT)) - l.first;
    l.skip = sums ? 0 : begin % BEAT;
    l.rest = sums ? 0 : end % BEAT;
    return l;
}

}  // namespace engine
