// Which rows a transform takes together, group by group, and where they begin.
#pragma once
#include "command.hpp"
#include "lib/nest.hpp"
#include "tiles.hpp"

namespace fpga {

// Sixteen rows that are transformed together.
struct fft_group {
    int64_t input[VEC];
    int64_t output[VEC];
    int32_t row;                           // the place of the first in kept[3]
    int32_t lanes;                         // how many there are
    bool input_on_beats, output_on_beats;  // whether all begin with a beat
};

FPGA_INLINE bool fft_by_rows(const int32_t (&stride)[5], int32_t length, bool real) {
    return length == 1 || stride[4] == (real ? 1 : 2);
}
FPGA_INLINE bool fft_in_rows(const fft_command& c) { return fft_by_rows(c.in_stride, c.points, c.in_real); }
FPGA_INLINE bool fft_out_rows(const fft_command& c) { return fft_by_rows(c.out_stride, c.points, c.out_real); }

FPGA_INLINE int64_t fft_rows_of(const fft_command& c) {
    return static_cast<int64_t>(c.kept[0]) * c.kept[1] * c.kept[2] * c.kept[3];
}

// Whether rows of all kept dimensions share vectors; columns lie side by side in the last one alone.
FPGA_INLINE bool fft_is_flat(const fft_command& c) { return fft_in_rows(c) && fft_out_rows(c); }

FPGA_INLINE int64_t fft_groups_of(const fft_command& c) {
    if (c.spread != ABSENT) return fft_rows_of(c);
    if (fft_is_flat(c)) return (fft_rows_of(c) + VEC - 1) / VEC;
    return fft_rows_of(c) / c.kept[3] * ceil_div(c.kept[3], VEC);
}

// Goes from group to group. Rows that share vectors go in the order in which they are stored.
class fft_walk {
public:
    FPGA_INLINE fft_walk(const fft_command& c, int64_t group) : nest_{}, rows_(0), row_(0) {
        const bool flat = c.spread != ABSENT || fft_is_flat(c);
        nest_.dims = flat ? 4 : 3;
    dimensions:
        for (int d = 0; d < 4; d++) {
            nest_.size[d] = c.kept[d];
            nest_.stride[d][0] = c.out_stride[d];
            nest_.stride[d][1] = c.in_stride[d];
        }
        if (flat) simplify(nest_);
        per_group_ = c.spread != ABSENT ? 1 : VEC;
        rows_ = flat ? fft_rows_of(c) - group * per_group_ : c.kept[3];
        const int32_t pieces = flat ? 1 : ceil_div(c.kept[3], VEC);
        row_ = flat ? 0 : static_cast<int32_t>(group % pieces) * VEC;
        flat_ = flat;
        at_ = position_at(nest_, nest_.dims, flat ? group * per_group_ : group / pieces);
    }

    // Fills in the next group.
    FPGA_INLINE void next(const fft_command& c, fft_group& group) {
        group.row = row_;
        group.lanes = static_cast<int32_t>(minimum(rows_ - row_, per_group_));
        const bool in_rows = fft_in_rows(c), out_rows = fft_out_rows(c);
        int64_t input = 0, output = 0, read = in_rows ? 0 : c.in_stride[4], stored = out_rows ? 0 : c.out_stride[4];
    lanes:
        for (int i = 0; i < VEC; i++) {
            if (i < group.lanes) {
                const int64_t row = flat_ ? 0 : row_ + i;
                input = c.input + at_.offset[1] + row * c.in_stride[3];
                output = c.output + at_.offset[0] + row * c.out_stride[3];
                if (flat_) advance(nest_, nest_.dims, at_);
            }
            group.input[i] = input;
            group.output[i] = output;
            if (i == 0 || in_rows) read |= input;
            if (i == 0 || out_rows) stored |= output;
        }
        group.input_on_beats = read % VEC == 0;
        group.output_on_beats = stored % VEC == 0;
        if (flat_) {
            rows_ -= group.lanes;
        } else {
            row_ += VEC;
            if (row_ >= rows_) {
                row_ = 0;
                advance(nest_, nest_.dims, at_);
            }
        }
    }

private:
    loop_nest nest_;
    nest_position at_;
    int64_t rows_;  // that are left, or in columns those of kept[3]
    int32_t row_, per_group_;
    bool flat_;
};

}  // namespace fpga
