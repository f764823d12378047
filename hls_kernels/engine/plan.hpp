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
#include "plan_arithmetic.hpp"
#include "record.hpp"

namespace engine {

struct plan_t {
    int32_t heads;            // heads[0] * heads[1]
    int32_t bands;            // of an image
    int32_t rows_last;        // of the output, in the last of them
    int32_t windows;          // of a head: images * bands
    int32_t passes;           // of a head: sets * windows
    int32_t tiles;            // of output channels
    int32_t sets;             // of tiles whose weights lie in the memory together
    int32_t tiles_last;       // in the last of them
    int32_t window_loads;     // of a head: how often the window is filled, ...
    int32_t window_passes;    // ... and how many sets are then computed with it
    int32_t set_loads;        // the same of the sets of weights
    int32_t set_passes;       // and windows
    int32_t sets_outside;     // 1: passes go through the windows for each set; 0: the other way round
    int32_t columns;          // of the kernel, in words: less than kernel[1] where the input is folded
    int32_t taps;             // kernel[0] * columns
    int32_t steps;            // that the window is read in for a tile and a group of pixels
    int32_t grouped;          // 1: a tile reads only some blocks of the input
    int32_t group_skip;       // input channels that the next tile lies further, whole groups
    int32_t group_rest;       // and output channels that are left then
    int32_t pixel_shift;      // a pixel has 1 << pixel_shift elements, of one block or folded
    int32_t pitch;            // positions from one row to the next
    int32_t planes[2];        // phase planes: rows, columns
    int32_t plane;            // positions of a phase plane
    int32_t block_rows;       // rows of the banks that a block of channels takes
    int32_t groups;           // of P positions that a band takes
    int32_t groups_last;      // and the last band
    int32_t group_y;          // rows, and ...
    int32_t group_x;          // ... columns of the output from one group to the next
    int32_t group_step[2];    // the same in the input: rows, columns
    int32_t row_step;         // columns of the input that a row of the window stands for
    int32_t row_plane;        // positions of a row's phase planes
    int32_t tap_stride;       // between two columns of the window that neighbouring pixels of the output read
    int32_t tap_step;         // from one tap to the next, in columns of the input
    int32_t tap_quotient[2];  // distance of neighbouring taps / stride: rows, columns
    int32_t tap_rest[2];      // and what is left, in phases
    int32_t tap_x;            // column of the input that the first tap of the first pixel reads; negative: padding
    int32_t tap_column;       // the same in its phase plane
    int32_t tap_phase;        // and the phase
    int32_t row_elements;     // of a row of the input in memory
    int32_t in_plane;         // lines of a block of the input
    int32_t in_lines;         // and of all of them
    int32_t out_plane;        // from a block of the output to the next
    int32_t out_pixels;       // of the output
    int32_t band_pixels;      // and of a band
    int32_t set_lines;        // of the output from one set to the next, ...
    int32_t set_sums;         // ... and the same of partial sums, a pixel a line
    int32_t image_lines;      // of the output of an image, ...
    int32_t image_sums;       // ... and of its partial sums
    int32_t weight_set;       // lines of a map as second operand from one set to the next
    int32_t set_weights;      // lines of the packed weights of a set, ...
    int32_t last_weights;     // ... and of the last one
    int32_t input_rows;       // of the input that a band reads
    int32_t band_input_rows;  // from one band to the next
    int32_t band_elements;    // the same in elements of a plane, ...
    int32_t window_elements;  // ... those of a band's rows, ...
    int32_t top_elements;     // ... where the first window begins: not behind 0 ...
    int32_t map_elements;     // ... and those of a plane
};

// Banks from one phase of a row to the next: of a stride of 2, four words from any column on then lie in different banks, if
// there are five or more.
constexpr int PHASES_APART = 3 % P;

// Rounded up; a and b are positive, or a is zero.
inline int32_t divide_up(int32_t a, int32_t b) { return (a + b - 1) / b; }
inline int32_t smaller(int32_t a, int32_t b) { return a < b ? a : b; }
inline int32_t larger(int32_t a, int32_t b) { return a > b ? a : b; }

constexpr int MAP_LINES = CHANNELS * CHANNELS / LINE_ELEMENTS;  // of 16 x 16 elements of a map

// Several pixels of few channels side by side in a word (layout.hpp).
inline bool folded(const mac_command& c) { return c.pixel_channels < CHANNELS; }
// Pixels of a word, and of how many that is the power of two.
inline int32_t fold_of(const mac_command& c) { return CHANNELS / c.pixel_channels; }
inline int32_t fold_shift(const mac_command& c) {
    return c.pixel_channels == 16  ? 0
           : c.pixel_channels == 8 ? 1
           : c.pixel_channels == 4 ? 2
           : c.pixel_channels == 2 ? 3
                                   : 4;
}

inline plan_t plan_of(const mac_command& c) {
    plan_t p;
    const bool fold = folded(c);
    const int fold_bits = fold_shift(c);
    arithmetic x;
    p.pixel_shift = 4 - fold_bits;
    p.tiles = BLOCKS == 2 && c.tile_blocks == 2 ? (c.out_blocks + 1) >> 1 : c.out_blocks;
    p.columns = fold ? (c.kernel[1] + fold_of(c) - 1) >> fold_bits : c.kernel[1];
    p.planes[0] = c.kernel[0] == 1 ? 1 : c.stride[0];
    p.planes[1] = fold || c.kernel[1] == 1 ? 1 : c.stride[1];
    p.tap_stride = fold ? 1 : c.stride[1];
    const int32_t rows = smaller(c.band_rows, c.out_height), above = larger(c.padding[0], -c.padding[0]);
    int32_t tile_lines = 0;
    ap_uint<bits_for(TAPS + 1) + 5> taps_width = 0;
    const int32_t set_blocks = smaller(BLOCKS == 2 && c.tile_blocks == 2 ? c.set_tiles << 1 : c.set_tiles,
                                       c.out_blocks);
plan_rounds:
    for (int round = 0; round < PLAN_ROUNDS; round++) {
#pragma HLS loop_flatten off
        switch (round) {
            case 0:
                x.multiply(HEADS, c.heads[0], c.heads[1]);
                x.multiply(TAPS_OF_KERNEL, c.kernel[0], p.columns);
                x.multiply(KERNEL_ROWS, c.kernel[0] - 1, c.dilation[0]);
                x.multiply(STEP_ROWS, rows - 1, c.stride[0]);
                x.multiply(BAND_ROWS, c.band_rows, c.stride[0]);
                x.multiply(PHASE_PLANES, p.planes[0], p.planes[1]);
                x.multiply(ROW_ELEMENTS, c.in_width, c.pixel_channels);
                x.divide(BANDS, c.out_height, c.band_rows);
                x.divide(SETS, p.tiles, c.set_tiles);
                x.divide(GROUP, c.tile_blocks * CHANNELS, c.group_out);
                x.divide(FOLD_STEP, fold_of(c), c.stride[1]);
                x.divide(FOLD_END, larger(0, c.in_width + c.padding[1] - fold_of(c)), c.stride[1]);
                x.divide(WIDTH, c.in_width, c.stride[1]);
                x.divide(LEFT, c.padding[1], p.tap_stride);
                x.divide(DOWN, c.dilation[0], c.stride[0]);
                x.divide(RIGHT, c.dilation[1], c.stride[1]);
                break;
            case 1:
                p.bands = x.quotient_up(BANDS);
                p.rows_last = x.rest(BANDS) > 0 ? x.rest(BANDS) : c.band_rows;
                p.input_rows = x.product(STEP_ROWS) + x.product(KERNEL_ROWS) + 1;
                p.row_elements = x.product(ROW_ELEMENTS);
                p.band_input_rows = x.product(BAND_ROWS);
                p.taps = x.product(TAPS_OF_KERNEL);
                p.tap_step = fold ? x.quotient(FOLD_STEP) : c.dilation[1];
                // A row of a folded input has a word for each place where a tap may begin, and for what lies behind them.
                // A kernel has at most TAPS columns, a word CHANNELS pixels.
                taps_width = ap_uint<bits_for(TAPS + 1)>(p.columns - 1) * ap_uint<5>(p.tap_step);
                p.pitch = fold ? larger(c.out_width + static_cast<int32_t>(taps_width), x.quotient_up(FOLD_END) + 1)
                               : larger(x.quotient_up(WIDTH), c.out_width);
                x.multiply(WINDOWS, c.images, p.bands);
                x.multiply(STEPS, p.taps, c.tile_depth * PARTS);
                x.multiply(GROUP_SKIP, x.quotient(GROUP), c.group_in);
                x.multiply(BAND_ELEMENTS, p.row_elements, p.band_input_rows);
                x.multiply(TOP_ELEMENTS, p.row_elements, above);
                x.multiply(WINDOW_ELEMENTS, p.row_elements, p.input_rows);
                x.multiply(MAP_ELEMENTS, p.row_elements, c.in_height);
                x.multiply(OUT_PIXELS, c.out_height, c.out_width);
                x.multiply(BAND_PIXELS, rows, c.out_width);
                x.multiply(WEIGHT_SET, c.weight_kind == WEIGHT_TRANSPOSED ? c.weight_plane : MAP_LINES, set_blocks);
                x.multiply(FULL_ROWS, rows - 1, p.pitch);
                x.multiply(LAST_ROWS, p.rows_last - 1, p.pitch);
                x.divide(PHASE_ROWS, p.input_rows, c.stride[0]);
                x.divide(GROUP_ROWS, P, p.pitch);
                break;
            case 2:
                p.windows = x.product(WINDOWS);
                p.sets = x.quotient_up(SETS);
                p.out_pixels = x.product(OUT_PIXELS);
                p.out_plane = c.out_plane > 0 ? c.out_plane : (p.out_pixels + (BEAT - 1)) >> LINE_SHIFT;
                x.multiply(PASSES, p.sets, p.windows);
                x.multiply(PLANE, x.quotient_up(PHASE_ROWS), p.pitch);
                p.steps = x.product(STEPS);
                p.tiles_last = x.rest(SETS) > 0 ? x.rest(SETS) : c.set_tiles;
                tile_lines = !has_weights(c) || second_operand_is_map(c) ? 0
                             : c.weight_kind == WEIGHT_DIAGONAL          ? (p.taps + (BEAT - 1)) >> LINE_SHIFT
                             : BLOCKS == 2 && c.tile_blocks == 2         ? p.steps * (2 * STEP_LINES)
                                                                         : p.steps * STEP_LINES;
                p.in_plane = (x.product(MAP_ELEMENTS) + (LINE_ELEMENTS - 1)) / LINE_ELEMENTS;
                p.group_y = x.quotient(GROUP_ROWS);
                p.group_x = x.rest(GROUP_ROWS);
                x.multiply(SET_LINES, p.out_plane, set_blocks);
                x.multiply(SET_SUMS, p.out_pixels, set_blocks);
                x.multiply(IMAGE_LINES, p.out_plane, c.out_blocks);
                x.multiply(IMAGE_SUMS, p.out_pixels, c.out_blocks);
                x.multiply(SET_WEIGHTS, tile_lines, c.set_tiles);
                x.multiply(LAST_WEIGHTS, tile_lines, p.tiles_last);
                x.multiply(IN_LINES, p.in_plane, c.in_blocks);
                x.multiply(GROUP_STEP_X, p.group_x, p.tap_stride);
                x.multiply(GROUP_STEP_Y, p.group_y, c.stride[0]);
                x.multiply(ROW_STEP, p.pitch, p.tap_stride);
                x.divide(GROUPS, x.product(FULL_ROWS) + c.out_width, P * INTERLEAVE);
                x.divide(GROUPS_LAST, x.product(LAST_ROWS) + c.out_width, P * INTERLEAVE);
                break;
            case 3: x.divide(PLANE_BANK, x.product(PLANE), P); break;
            case 4: {
                // Words of a row's phases are written at once: they must lie in different banks.
                const int32_t more = PHASES_APART - x.rest(PLANE_BANK), apart = more < 0 ? more + P : more;
                p.plane = x.product(PLANE) + (p.planes[1] > 1 ? apart : 0);
                x.multiply(PLANES, p.plane, x.product(PHASE_PLANES));
                x.multiply(ROW_PLANE, p.plane, p.planes[1]);
                break;
            }
            default: x.divide(BLOCK, x.product(PLANES), P);
        }
        x.run();
    }
    p.heads = x.product(HEADS);
    // One set stays where it is, and so does one window.
    p.sets_outside = p.sets == 1 || (p.windows > 1 && c.order == ORDER_SETS);
    const int32_t passes = x.product(PASSES);
    p.window_loads = p.sets_outside ? passes : p.windows;
    p.window_passes = p.sets_outside ? 1 : p.sets;
    p.set_loads = p.sets_outside ? p.sets : passes;
    p.set_passes = p.sets_outside ? p.windows : 1;
    p.set_weights = x.product(SET_WEIGHTS);
    p.last_weights = x.product(LAST_WEIGHTS);
    p.grouped = c.tile_depth < c.in_blocks;
    p.group_skip = x.product(GROUP_SKIP);
    p.group_rest = x.rest(GROUP);
    p.block_rows = x.quotient_up(BLOCK);
    p.groups = x.quotient_up(GROUPS) * INTERLEAVE;
    p.groups_last = x.quotient_up(GROUPS_LAST) * INTERLEAVE;
    p.tap_quotient[0] = x.quotient(DOWN);
    p.tap_rest[0] = x.rest(DOWN);
    p.tap_quotient[1] = fold ? p.tap_step : x.quotient(RIGHT);
    p.tap_rest[1] = fold ? 0 : x.rest(RIGHT);
    p.tap_x = fold ? 0 : -c.padding[1];
    p.tap_column = fold ? 0 : -x.quotient_up(LEFT);
    p.tap_phase = fold || x.rest(LEFT) == 0 ? 0 : p.tap_stride - x.rest(LEFT);
    p.in_lines = x.product(IN_LINES);
    p.group_step[0] = x.product(GROUP_STEP_Y);
    p.group_step[1] = x.product(GROUP_STEP_X);
    p.row_step = x.product(ROW_STEP);
    p.row_plane = x.product(ROW_PLANE);
    p.passes = passes;
    p.band_pixels = x.product(BAND_PIXELS);
    p.set_lines = x.product(SET_LINES);
    p.set_sums = x.product(SET_SUMS);
    p.image_lines = x.product(IMAGE_LINES);
    p.image_sums = x.product(IMAGE_SUMS);
    p.weight_set = x.product(WEIGHT_SET);
    p.band_elements = x.product(BAND_ELEMENTS);
    p.top_elements = c.padding[0] > 0 ? -x.product(TOP_ELEMENTS) : x.product(TOP_ELEMENTS);
    p.window_elements = x.product(WINDOW_ELEMENTS);
    p.map_elements = x.product(MAP_ELEMENTS);
    return p;
}

// A command on its way through the processes.
struct job_t {
    mac_command c;
    plan_t p;
    bool runs;    // on the MAC side; false: the opcode is unknown and the command is ignored, unless ...
    bool vector;  // ... it is one of the vector side's, whose processes have its record
    bool idle;    // the command is ENGINE_IDLE
};

// Steps of the array for a tile and a group of pixels. A maximum is taken on the way to the array, which then multiplies by 1.
inline int32_t steps_of_array(const job_t& job) { return has_weights(job.c) ? job.p.steps : PARTS; }

// Rows of the output that a window is for, and groups of P positions that the array takes for it.
struct band_t {
    int32_t y0;
    int32_t rows;
    int32_t groups;
};
inline band_t band_of(const job_t& job, int32_t band) {
#pragma HLS inline
    const bool last = band + 1 == job.p.bands;
    return {band * job.c.band_rows, last ? job.p.rows_last : job.c.band_rows, last ? job.p.groups_last : job.p.groups};
}

// Rows of the input that are in a window, band after band: they begin in row `top`, which may lie above the input; first and
// behind are those that exist, none if behind <= first. The same in elements of a plane.
class input_rows {
public:
    typedef number<SIZE_BITS + 1> row_index;
    typedef number<ELEMENT_BITS + 1> element_index;
    explicit input_rows(const job_t& job) : job_(job) {
#pragma HLS inline
        begin();
    }
    row_index top() const { return top_; }
    row_index first() const { return when<row_index>(top_ < 0, 0, top_); }
    row_index behind() const {
        const row_index end = top_ + job_.p.input_rows, all = job_.c.in_height;
        return end < all ? end : all;
    }
    bool any() const { return behind() > first(); }
    bool reach_end() const { return behind() == job_.c.in_height; }
    element_index first_element() const { return when<element_index>(top_ < 0, 0, top_element_); }
    element_index element_behind() const {
        const element_index end = top_element_ + job_.p.window_elements, all = job_.p.map_elements;
        return end < all ? end : all;
    }
    // Of a block's plane, in beats.
    number<ELEMENT_BITS> first_beat() const {
        return when<number<ELEMENT_BITS>>(any(), first_element() >> BEAT_SHIFT, 0);
    }
    number<ELEMENT_BITS> beats() const {
        const number<ELEMENT_BITS> end = (element_behind() + ((1 << BEAT_SHIFT) - 1)) >> BEAT_SHIFT;
        return when<number<ELEMENT_BITS>>(any(), end - first_beat(), 0);
    }
    void next() {
#pragma HLS inline
        if (++band_ == job_.p.bands) return begin();
        top_ = top_ + job_.p.band_input_rows;
        top_element_ = top_element_ + job_.p.band_elements;
    }
    bool at_begin() const { return band_ == 0; }

private:
    void begin() {
#pragma HLS inline
        band_ = 0;
        top_ = -job_.c.padding[0];
        top_element_ = job_.p.top_elements;
    }
    const job_t& job_;
    number<SIZE_BITS> band_;
    row_index top_;
    element_index top_element_;
};

// A pass computes a set of tiles for a window. All processes behind the window go through the passes of a head in the same
// order.
struct pass_t {
    number<SMALL_BITS> image;
    number<SIZE_BITS> band;
    number<BLOCK_BITS> set;
};
inline void next_pass(pass_t& at, const job_t& job) {
#pragma HLS inline
    const bool last_set = at.set + 1 == job.p.sets, last_band = at.band + 1 == job.p.bands;
    const bool last_window = last_band && at.image + 1 == job.c.images;
    const bool window_moves = job.p.sets_outside || last_set, set_moves = !job.p.sets_outside || last_window;
    if (window_moves && last_band) at.image = when<number<SMALL_BITS>>(last_window, 0, at.image + 1);
    if (window_moves) at.band = when<number<SIZE_BITS>>(last_band, 0, at.band + 1);
    if (set_moves) at.set = when<number<BLOCK_BITS>>(last_set, 0, at.set + 1);
}

// Tiles of a set, and blocks of a tile and of a set: the last ones may be smaller.
inline number<2> tile_blocks_of(const job_t& job) { return BLOCKS == 1 ? 1 : job.c.tile_blocks; }
inline bool last_tile_is_half(const job_t& job) {
    return BLOCKS == 2 && job.c.tile_blocks == 2 && (job.c.out_blocks & 1) != 0;
}
inline number<2> blocks_of_last_tile(const job_t& job) {
#pragma HLS inline
    return last_tile_is_half(job) ? number<2>(1) : tile_blocks_of(job);
}
inline number<TILE_BITS> tiles_of_set(const job_t& job, const number<BLOCK_BITS>& set) {
#pragma HLS inline
    return set + 1 == job.p.sets ? job.p.tiles_last : job.c.set_tiles;
}
typedef number<bits_for(SET_BLOCKS + 1)> set_blocks_t;
inline set_blocks_t blocks_of_set(const job_t& job, const number<BLOCK_BITS>& set) {
#pragma HLS inline
    const set_blocks_t tiles = tiles_of_set(job, set), twice = tiles << 1;
    const bool half = set + 1 == job.p.sets && last_tile_is_half(job);
    return BLOCKS == 2 && job.c.tile_blocks == 2 ? set_blocks_t(twice - half) : tiles;
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
