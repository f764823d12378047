// core: scan; opcodes: scan

// Inclusive scans along one dimension: sums, products, log-sum-exps. The vector lanes are 16 independent scans. They are
// neighbouring columns if the scanned dimension is not contiguous. Otherwise they are 16 rows, whose 16 x 16 blocks are
// transposed on the way in and out. For few long rows they are 16 stretches of one row, which are scanned twice: for the
// total of each, and from the totals before it. SCAN_WAYS vectors take turns, which hides the adder's latency.
#pragma once
#include "command.hpp"
#include "lib/bounds.hpp"
#include "lib/vector.hpp"
#include "steps.hpp"

namespace fpga {

constexpr int SCAN_WAYS = 8;
constexpr int32_t SCAN_FEW = 2 * VEC, SCAN_LONG = 128;  // fewer rows, of so many elements or more, go in stretches

typedef vec16 scan_block[SCAN_WAYS][VEC];

// Where a lane of a block begins in the bank, and how many of its elements there are in the block's vectors.
struct scan_lane {
    int64_t input;
    int64_t output;
    int32_t length;
};

FPGA_INLINE bool scan_along_rows(const scan_command& c) {
    return c.length == 1 || (c.in_stride[4] == 1 && c.out_stride[4] == 1);
}

FPGA_INLINE int64_t scan_rows_of(const scan_command& c) {
    return static_cast<int64_t>(c.kept[0]) * c.kept[1] * c.kept[2] * c.kept[3];
}

// Moves a lane to row number `index` of the kept dimensions, of which the last has `width` rows.
inline void seek_row(const scan_command& c, int64_t index, int32_t width, scan_lane& lane) {
    lane.input = c.input;
    lane.output = c.output;
dimensions:
    for (int d = 3; d >= 0; d--) {
        const int32_t size = d == 3 ? width : c.kept[d];
        const int64_t i = index % size;
        index /= size;
        lane.input += i * c.in_stride[d];
        lane.output += i * c.out_stride[d];
    }
}

// Vectors [first, end) of neighbouring columns, SCAN_WAYS at a time.
template <int KIND>
inline void scan_columns(const scan_command& c, vec16* arena, int64_t first, int64_t end) {
    const int32_t pieces = ceil_div(c.kept[3], VEC);
    scan_state state[SCAN_WAYS];
    scan_lane at[SCAN_WAYS];
items:
    for (; first < end; first += SCAN_WAYS) {
#pragma HLS loop_tripcount min = 1 max = 64
        const int32_t ways = static_cast<int32_t>(minimum(end - first, static_cast<int64_t>(SCAN_WAYS)));
    starts:
        for (int j = 0; j < ways; j++) {
#pragma HLS loop_tripcount min = 8 max = 8
            const int64_t row = (first + j) / pieces, column = (first + j) % pieces * VEC;
            seek_row(c, row, 1, at[j]);
            at[j].input += column * c.in_stride[3];
            at[j].output += column * c.out_stride[3];
            at[j].length = static_cast<int32_t>(minimum(c.kept[3] - column, static_cast<int64_t>(VEC)));
            if (c.backward) {
                at[j].input += static_cast<int64_t>(c.length - 1) * c.in_stride[4];
                at[j].output += static_cast<int64_t>(c.length - 1) * c.out_stride[4];
            }
            scan_start<KIND>(state[j]);
        }
        const int64_t in_step = c.backward ? -static_cast<int64_t>(c.in_stride[4]) : c.in_stride[4];
        const int64_t out_step = c.backward ? -static_cast<int64_t>(c.out_stride[4]) : c.out_stride[4];
    elements:
        for (int32_t i = 0; i < c.length; i++) {
#pragma HLS loop_tripcount min = 1 max = 1024
        vectors:
            for (int j = 0; j < SCAN_WAYS; j++) {
#pragma HLS pipeline II = 1
#pragma HLS dependence variable = state inter true distance = 8
#pragma HLS dependence variable = at inter true distance = 8
                if (j < ways) {
                    const vec16 x = load_some(arena, at[j].input, at[j].length);
                    store_some(arena, at[j].output, scan_step<KIND>(state[j], x), at[j].length);
                    at[j].input += in_step;
                    at[j].output += out_step;
                }
            }
        }
    }
}

// Elements `from` to from + 15 of 16 lanes as 16 vectors, one an element; what does not exist changes no result.
template <int KIND>
FPGA_INLINE void load_block(vec16 (&x)[VEC], const vec16* arena, const scan_lane (&lane)[VEC], int32_t from) {
lanes:
    for (int i = 0; i < VEC; i++) {
#pragma HLS pipeline II = 1
        const int32_t left = lane[i].length - from;
        x[i] = scan_identity<KIND>();
        if (left >= VEC)
            x[i] = load(arena, lane[i].input + from);
        else if (left > 0)
            x[i] = select(vlt(lane_numbers(), ivec16(left)), load_lanes(arena, lane[i].input + from, left), x[i]);
    }
    transpose(x);
}

FPGA_INLINE void store_block(vec16 (&x)[VEC], vec16* arena, const scan_lane (&lane)[VEC], int32_t from) {
    transpose(x);
lanes:
    for (int i = 0; i < VEC; i++) {
#pragma HLS pipeline II = 1
        const int32_t left = lane[i].length - from;
        if (left > 0) store_some(arena, lane[i].output + from, x[i], left);
    }
}

// The 16 steps of all ways of a block, by turns.
template <int KIND>
inline void scan_rows_of_block(scan_state (&state)[SCAN_WAYS], scan_block& x, int32_t ways, bool backward) {
elements:
    for (int s = 0; s < VEC; s++) {
        const int i = backward ? VEC - 1 - s : s;
    vectors:
        for (int j = 0; j < SCAN_WAYS; j++) {
#pragma HLS pipeline II = 1
#pragma HLS dependence variable = state inter true distance = 8
            if (j < ways) x[j][i] = scan_step<KIND>(state[j], x[j][i]);
        }
    }
}

// Vectors [first, end) of 16 contiguous rows, SCAN_WAYS at a time.
template <int KIND>
inline void scan_rows(const scan_command& c, vec16* arena, int64_t first, int64_t end) {
    const int64_t rows = scan_rows_of(c);
    const int32_t blocks = ceil_div(c.length, VEC);
    scan_state state[SCAN_WAYS];
    scan_lane lane[SCAN_WAYS][VEC];
    scan_block x;
#pragma HLS array_partition variable = x complete dim = 2
items:
    for (; first < end; first += SCAN_WAYS) {
#pragma HLS loop_tripcount min = 1 max = 16
        const int32_t ways = static_cast<int32_t>(minimum(end - first, static_cast<int64_t>(SCAN_WAYS)));
    starts:
        for (int j = 0; j < ways; j++) {
#pragma HLS loop_tripcount min = 8 max = 8
            scan_start<KIND>(state[j]);
        lanes:
            for (int i = 0; i < VEC; i++) {
                const int64_t row = (first + j) * VEC + i;
                seek_row(c, minimum(row, rows - 1), c.kept[3], lane[j][i]);
                lane[j][i].length = row < rows ? c.length : 0;
            }
        }
    along:
        for (int32_t b = 0; b < blocks; b++) {
#pragma HLS loop_tripcount min = 1 max = 64
            const int32_t from = (c.backward ? blocks - 1 - b : b) * VEC;
        reads:
            for (int j = 0; j < ways; j++) {
#pragma HLS loop_tripcount min = 8 max = 8
                load_block<KIND>(x[j], arena, lane[j], from);
            }
            scan_rows_of_block<KIND>(state, x, ways, c.backward);
        writes:
            for (int j = 0; j < ways; j++) {
#pragma HLS loop_tripcount min = 8 max = 8
                store_block(x[j], arena, lane[j], from);
            }
        }
    }
}

// The steps of a lane's stretch, `vectors` of 16 elements; the results stay in x if KEEP.
template <int KIND, bool KEEP>
inline void scan_stretch(scan_state& state, scan_block& x, int32_t vectors, bool backward) {
elements:
    for (int32_t s = 0; s < vectors * VEC; s++) {
#pragma HLS pipeline
#pragma HLS loop_tripcount min = 16 max = 128
        const int32_t i = backward ? vectors * VEC - 1 - s : s;
        const vec16 y = scan_step<KIND>(state, x[i / VEC][i % VEC]);
        if (KEEP) x[i / VEC][i % VEC] = y;
    }
}

// One contiguous row, in blocks of 16 stretches.
template <int KIND>
inline void scan_long_row(const scan_command& c, vec16* arena, int64_t row) {
    const int32_t vectors = minimum(ceil_div(ceil_div(c.length, VEC), VEC), SCAN_WAYS), stretch = vectors * VEC;
    const int32_t blocks = ceil_div(c.length, stretch * VEC);
    scan_state state;
    scan_lane begin, lane[VEC];
    scan_block x;
#pragma HLS array_partition variable = x complete dim = 2
    seek_row(c, row, c.kept[3], begin);
    scan_total carry = scan_nothing();
along:
    for (int32_t b = 0; b < blocks; b++) {
#pragma HLS loop_tripcount min = 1 max = 64
        const int32_t block = (c.backward ? blocks - 1 - b : b) * stretch * VEC;
    lanes:
        for (int i = 0; i < VEC; i++) {
            const int32_t from = block + i * stretch;
            lane[i].input = begin.input + from;
            lane[i].output = begin.output + from;
            lane[i].length = maximum(minimum(c.length - from, stretch), 0);
        }
    reads:
        for (int j = 0; j < vectors; j++) {
#pragma HLS loop_tripcount min = 8 max = 8
            load_block<KIND>(x[j], arena, lane, j * VEC);
        }
        scan_start<KIND>(state);
        scan_stretch<KIND, false>(state, x, vectors, c.backward);
        scan_lanes<KIND>(state, carry, c.backward);
        scan_stretch<KIND, true>(state, x, vectors, c.backward);
    writes:
        for (int j = 0; j < vectors; j++) {
#pragma HLS loop_tripcount min = 8 max = 8
            store_block(x[j], arena, lane, j * VEC);
        }
    }
}

template <int KIND>
inline void scan_slice(const scan_command& c, vec16* arena, uint32_t slice, uint32_t slices) {
    const int64_t rows = scan_rows_of(c);
    if (!scan_along_rows(c)) {
        const int64_t vectors = rows / c.kept[3] * ceil_div(c.kept[3], VEC);
        scan_columns<KIND>(c, arena, slice_begin(vectors, slice, slices), slice_begin(vectors, slice + 1, slices));
    } else if (KIND != SCAN_PRODUCT && rows < SCAN_FEW && c.length >= SCAN_LONG) {
        const int64_t end = slice_begin(rows, slice + 1, slices);
    long_rows:
        for (int64_t row = slice_begin(rows, slice, slices); row < end; row++) {
#pragma HLS loop_tripcount min = 1 max = 32
            scan_long_row<KIND>(c, arena, row);
        }
    } else {
        const int64_t vectors = (rows + VEC - 1) / VEC;
        scan_rows<KIND>(c, arena, slice_begin(vectors, slice, slices), slice_begin(vectors, slice + 1, slices));
    }
}

inline uint32_t scan(const scan_command& c, const vec16*, vec16* arena, const vec16*, uint32_t slice, uint32_t slices) {
    switch (c.kind) {
        case SCAN_PRODUCT: scan_slice<SCAN_PRODUCT>(c, arena, slice, slices); break;
        case SCAN_LOG_SUM_EXP: scan_slice<SCAN_LOG_SUM_EXP>(c, arena, slice, slices); break;
        case SCAN_INT_SUM: scan_slice<SCAN_INT_SUM>(c, arena, slice, slices); break;
        default: scan_slice<SCAN_SUM>(c, arena, slice, slices); break;
    }
    return STATUS_OK;
}

#ifndef __SYNTHESIS__
template <>
struct redirection<scan_command> {
    static constexpr bool POSSIBLE = true;
    static void apply(scan_command& c, const windows& elsewhere) { elsewhere.redirect(c.input, c.output); }
};

inline void scan_bounds(const scan_command& c, bounds& b) {
    b.require(c.kind >= SCAN_SUM && c.kind <= SCAN_INT_SUM, "has an unknown kind");
    b.require(c.length >= 1 && c.length <= 1 << 30, "scans no element, or more than 2^30");
    extent input, output;
    int64_t rows = 1;
    for (int d = 0; d < 4; d++) {
        b.require(c.kept[d] >= 1 && c.kept[d] <= 1 << 30, "has a dimension below 1, or above 2^30");
        if (!b.ok()) return;
        rows *= c.kept[d];
        b.require(rows <= 1 << 30, "has more than 2^30 rows");
        input.dim(c.kept[d], c.in_stride[d]);
        output.dim(c.kept[d], c.out_stride[d]);
    }
    const bool columns = c.kept[3] == 1 || (c.in_stride[3] == 1 && c.out_stride[3] == 1);
    b.require(columns || scan_along_rows(c), "has no dimension that is contiguous in input and output");
    if (!b.ok()) return;
    b.read(REGION_ARENA, c.input, input.dim(c.length, c.in_stride[4]));
    b.write(REGION_ARENA, c.output, output.dim(c.length, c.out_stride[4]));
}
#endif

}  // namespace fpga
