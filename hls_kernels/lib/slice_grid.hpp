// How the slices of a conv2d or gemm share its work: a grid over panels of output channels and units of pixels.
#pragma once
#include "tiles.hpp"
#include "vector.hpp"

namespace fpga {

struct slice_grid {
    int64_t panel_begin, panel_end;
    int64_t unit_begin, unit_end;
};

// What a part of the grid costs beside its products, in quarters of a vector multiply-accumulate.
struct grid_costs {
    int64_t weights;    // a vector of them: it comes from far, or each part packs it first
    int64_t far_input;  // a value of the input that another lane has just written
};

constexpr grid_costs PACKED_COSTS = {16, 0}, PACKING_COSTS = {48, 0};

// Cost of one step of k for a part of the grid; an input value costs about one.
FPGA_INLINE int64_t part_cost(int64_t panels, int64_t pixels, int64_t vectors, int64_t weights_cost) {
    return panels * pixels * vectors * 4 + panels * vectors * weights_cost + pixels;
}

// The split of `slices` into (parts of the panels) x (parts of the units) whose slowest part is the cheapest. Consecutive
// slices run on the same lane. With `panels_first` they share panels as long as they can, which is better where the weights
// are larger than the input; otherwise they share units. Where the units alone are split, a lane has the same pixels in each
// command of a chain and finds them in its own cache. Otherwise it needs the pixels of all lanes, and each of its slices (two
// or more) brings a part. Each input value is used in `taps` steps of k.
inline slice_grid choose_grid(int64_t panels, int64_t units, int64_t unit_pixels, int64_t vectors, uint32_t slice,
                              uint32_t slices, bool panels_first = false, const grid_costs& costs = PACKED_COSTS,
                              int64_t taps = 1) {
    const int64_t far_input = units * unit_pixels * costs.far_input * 2 / (taps * slices);
    uint32_t across = 1;
    int64_t best = INT64_MAX;
split:
    for (uint32_t a = 1; a <= slices; a++) {
#pragma HLS loop_tripcount min = 1 max = 1
        if (slices % a != 0) continue;
        const int64_t along = slices / a;
        const int64_t pixels = (units + along - 1) / along * unit_pixels;
        const int64_t cost = part_cost((panels + a - 1) / a, pixels, vectors, costs.weights) + (a > 1 ? far_input : 0);
        if (cost < best) {
            best = cost;
            across = a;
        }
    }
    const uint32_t along = slices / across;
    const uint32_t panel_part = panels_first ? slice / along : slice % across;
    const uint32_t unit_part = panels_first ? slice % along : slice / across;
    slice_grid g;
    g.panel_begin = slice_begin(panels, panel_part, across);
    g.panel_end = slice_begin(panels, panel_part + 1, across);
    g.unit_begin = slice_begin(units, unit_part, along);
    g.unit_end = slice_begin(units, unit_part + 1, along);
    return g;
}

}  // namespace fpga
