// Test bench of the core conv2d_int8: both opcodes on random geometries against plain loops over integers and the scalar
// arithmetic of requantize.hpp, which they must meet to the bit.
#include "core.hpp"

#include "tb/geometry.hpp"
#include "tb/int8.hpp"

namespace {

using fpga::ABSENT;
using fpga::VEC;

tb::report report("conv2d_int8");

// Strides of a batch of images with a random pitch; returns what they span.
int64_t lay_out(tb::random_source& random, int batch, int height, int width, int channels, int32_t stride[3],
                bool dense = false) {
    stride[2] = dense ? channels : fpga::round_up(channels, VEC) + random.pick({0, 0, 0, 16, 48, 5});
    stride[1] = stride[2] * width + (dense ? 0 : random.pick({0, 0, 0, 32, 7}));
    stride[0] = stride[1] * height + (dense ? 0 : random.pick({0, 0, 64}));
    return static_cast<int64_t>(stride[0]) * batch;
}

// Places input, residual and output; formats are random. `channels` of the input, `stored` of the output. quads: pixels of the
// input may have 4 bytes.
template <class COMMAND>
void place_operands(COMMAND& c, tb::memory& arena, tb::random_source& random, int channels, int stored, bool dense,
                    bool quads = false) {
    c.in_format = tb::random_format(random);
    c.pad = tb::random_value(random, c.in_format);
    c.input = tb::random_bytes(arena, random,
                               quads && random.chance(0.5)
                                   ? lay_out(random, c.batch, c.in_height, c.in_width, 4, c.in_stride, true)
                                   : lay_out(random, c.batch, c.in_height, c.in_width, channels, c.in_stride, dense));
    c.residual = ABSENT;
    c.out_format = random.chance(0.15) ? fpga::FORMAT_F32 : tb::random_format(random);
    c.residual_format = tb::random_format(random);
    if (c.out_format != fpga::FORMAT_F32 && random.chance(0.4))
        c.residual = tb::random_bytes(arena, random,
                                      lay_out(random, c.batch, c.out_height, c.out_width, stored, c.residual_stride));
    const int32_t bytes = c.out_format == fpga::FORMAT_F32 ? 4 : 1;
    c.output = tb::random_bytes(arena, random,
                                bytes * lay_out(random, c.batch, c.out_height, c.out_width, stored, c.out_stride)) /
               bytes;
}

// Compares every output channel with `sum_of(n, y, x, channel)`; parameters are found by `place(channel)`, a panel and a lane.
template <class COMMAND, class CORE, class SUM, class PLACE>
void run(const COMMAND& c, CORE core, tb::memory& arena, const tb::memory& weights, int channels, int stored, int width,
         SUM sum_of, PLACE place) {
    const int32_t bytes = c.out_format == fpga::FORMAT_F32 ? 4 : 1;
    const auto rows = [&](const auto& visit) {
        for (int n = 0; n < c.batch; n++)
            for (int y = 0; y < c.out_height; y++)
                for (int x = 0; x < c.out_width; x++) visit(bytes * tb::pixel_at(c.output, c.out_stride, n, y, x));
    };
    tb::run_bytes_sliced(report, c, core, arena, weights, bytes * stored, rows, [&] {
        for (int n = 0; n < c.batch; n++)
            for (int y = 0; y < c.out_height; y++)
                for (int x = 0; x < c.out_width; x++)
                    for (int o = 0; o < channels; o++) {
                        const int32_t residual =
                            c.residual == ABSENT
                                ? 0
                                : tb::value_of(
                                      tb::bytes_in(arena)[tb::pixel_at(c.residual, c.residual_stride, n, y, x) + o],
                                      c.residual_format);
                        const std::pair<int, int> at = place(o);
                        const double expected = tb::reference_result(c, weights, at.first, at.second, width,
                                                                     sum_of(n, y, x, o), residual);
                        const size_t to = tb::pixel_at(c.output, c.out_stride, n, y, x) + o;
                        const std::string where = tb::text_of_pixel(n, y, x, o);
                        if (bytes == 4)
                            report.close(arena[to], expected, 2e-5 * (1 + std::fabs(expected)), where);
                        else
                            report.close(tb::bytes_in(arena)[to], expected,
                                         c.activation == fpga::ACT_NONE || c.table != ABSENT ? 0 : 1, where);
                    }
    });
}

void conv2d_case(const tb::geometry& g, tb::random_source& random) {
    fpga::conv2d_int8_command c = {};
    if (!tb::take_geometry(c, g)) return;
    c.groups = g.groups;
    c.in_channels = g.in_channels;
    c.out_channels = g.out_channels;
    c.vectors = fpga::minimum(g.vectors, fpga::tile::MAX_VECTORS);
    report.begin("conv2d_int8 " + tb::text_of(g));
    tb::memory arena, weights;
    const int out_channels = c.groups * c.out_channels, in_channels = c.groups * c.in_channels;
    const int stored = c.groups > 1 ? out_channels : fpga::round_up(out_channels, VEC);
    place_operands(c, arena, random, in_channels, stored, g.dense, in_channels <= 4);

    const int padded = fpga::round_up(c.in_channels, 4), taps = c.kernel[0] * c.kernel[1];
    const int together = fpga::round_up(c.kernel[1] * c.in_channels, 4);
    const bool adjoin = c.dilation[1] == 1 && together < c.kernel[1] * padded;
    const int channels = adjoin ? c.in_channels : padded, row = adjoin ? together : c.kernel[1] * padded;
    const int depth = c.kernel[0] * row;
    const int width = c.vectors * VEC, panels = fpga::ceil_div(c.out_channels, width);
    c.weight =
        static_cast<uint32_t>(tb::aligned_bytes(weights, static_cast<int64_t>(c.groups) * panels * depth * width));
    const bool extreme = random.chance(0.2);
    const auto weight_at = [&](int o, int tap, int i) {
        const int panel = o / c.out_channels * panels + o % c.out_channels / width, lane = o % c.out_channels % width;
        const int64_t k = static_cast<int64_t>(tap / c.kernel[1]) * row + tap % c.kernel[1] * channels + i;
        return c.weight + ((panel * (depth / 4) + k / 4) * width + lane) * 4 + k % 4;
    };
    std::memset(tb::bytes_in(weights) + c.weight, 0, static_cast<size_t>(c.groups) * panels * depth * width);
    for (int o = 0; o < out_channels; o++)
        for (int tap = 0; tap < taps; tap++)
            for (int i = 0; i < c.in_channels; i++)
                tb::bytes_in(weights)[weight_at(o, tap, i)] =
                    static_cast<uint8_t>(extreme ? random.pick({-128, 127, -128}) : random.integer(-128, 127));
    tb::random_epilogue(c, weights, random, c.groups * panels, width, 256.0 * 128 * depth);
#ifndef __SYNTHESIS__
    if (!report.bounded(c, fpga::conv2d_int8_bounds, arena, weights)) return;
#endif
    const auto sum_of = [&](int n, int y, int x, int o) {
        int32_t sum = 0;
        for (int tap = 0; tap < taps; tap++) {
            const int iy = y * c.stride[0] - c.padding[0] + tap / c.kernel[1] * c.dilation[0];
            const int ix = x * c.stride[1] - c.padding[1] + tap % c.kernel[1] * c.dilation[1];
            const bool inside = iy >= 0 && iy < c.in_height && ix >= 0 && ix < c.in_width;
            const int first = o / c.out_channels * c.in_channels;
            for (int i = 0; i < c.in_channels; i++) {
                const int32_t a =
                    inside
                        ? tb::value_of(tb::bytes_in(arena)[tb::pixel_at(c.input, c.in_stride, n, iy, ix) + first + i],
                                       c.in_format)
                        : c.pad;
                sum += a * static_cast<int8_t>(tb::bytes_in(weights)[weight_at(o, tap, i)]);
            }
        }
        return sum;
    };
    run(c, fpga::conv2d_int8, arena, weights, out_channels, stored, width, sum_of, [&](int o) {
        return std::make_pair(o / c.out_channels * panels + o % c.out_channels / width, o % c.out_channels % width);
    });
}

tb::geometry random_geometry(tb::random_source& random) {
    tb::geometry g = tb::random_geometry(random, {1, 2, 3, 6, 10, 16, 32, 36, 64, 100});
    if (random.chance(0.3))
        for (int i = 0; i < 2; i++) g.kernel[i] = g.stride[i] = g.dilation[i] = 1, g.padding[i] = g.after[i] = 0;
    g.planar = false;
    return g;
}

// Shapes that reach what random small ones do not: long sums, several blocks of rows, and the gather.
void conv2d_large_cases(tb::random_source& random) {
    const tb::geometry cases[] = {
        {1, 1, 512, 7, 7, 64, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 2, false, true},
        {1, 1, 2048, 3, 5, 70, {1, 1}, {1, 1}, {0, 0}, {1, 1}, {0, 0}, 4, false, true},
        {1, 1, 8200, 2, 9, 20, {1, 1}, {1, 1}, {0, 0}, {1, 1}, {0, 0}, 2, false, true},  // several blocks of k
        {1, 1, 512, 12, 12, 16, {3, 3}, {1, 1}, {12, 12}, {12, 12}, {12, 12}, 1, false, false},
        {1, 1, 4096, 5, 40, 16, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1, false, false},  // gather
        {1, 1, 4093, 1, 40, 16, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1, false, false},
        {1, 1, 3, 2, 1100, 16, {1, 3}, {1, 1}, {0, 1}, {1, 1}, {0, 1}, 1, false, true},  // row wider than a block
        {2, 1, 3, 60, 64, 64, {7, 7}, {2, 2}, {3, 3}, {1, 1}, {3, 3}, 4, false, true},   // stem
        {1, 1, 64, 28, 28, 64, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 4, false, true},
        {1, 1, 16, 70, 64, 32, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 2, false, false},
    };
    for (const tb::geometry& g : cases) conv2d_case(g, random);
}

void depthwise_case(const tb::geometry& g, tb::random_source& random) {
    fpga::depthwise_int8_command c = {};
    if (!tb::take_geometry(c, g)) return;
    c.channels = g.in_channels;
    report.begin("depthwise_int8 " + tb::text_of(g));
    tb::memory arena, weights;
    const int stored = fpga::round_up(c.channels, VEC), quads = fpga::ceil_div(c.kernel[0], 4);
    place_operands(c, arena, random, c.channels, stored, g.dense);
    const int64_t bytes = static_cast<int64_t>(c.kernel[1]) * quads * stored * 4;
    c.weight = static_cast<uint32_t>(tb::aligned_bytes(weights, bytes));
    const auto weight_at = [&](int i, int ky, int kx) {
        return c.weight + ((static_cast<int64_t>(kx) * quads + ky / 4) * stored + i) * 4 + ky % 4;
    };
    std::memset(tb::bytes_in(weights) + c.weight, 0, static_cast<size_t>(bytes));
    for (int i = 0; i < c.channels; i++)
        for (int ky = 0; ky < c.kernel[0]; ky++)
            for (int kx = 0; kx < c.kernel[1]; kx++)
                tb::bytes_in(weights)[weight_at(i, ky, kx)] = static_cast<uint8_t>(random.integer(-128, 127));
    tb::random_epilogue(c, weights, random, stored / VEC, VEC, 256.0 * 128 * c.kernel[0] * c.kernel[1]);
#ifndef __SYNTHESIS__
    if (!report.bounded(c, fpga::depthwise_int8_bounds, arena, weights)) return;
#endif
    const auto sum_of = [&](int n, int y, int x, int i) {
        int32_t sum = 0;
        for (int ky = 0; ky < c.kernel[0]; ky++)
            for (int kx = 0; kx < c.kernel[1]; kx++) {
                const int iy = y * c.stride[0] - c.padding[0] + ky * c.dilation[0];
                const int ix = x * c.stride[1] - c.padding[1] + kx * c.dilation[1];
                const bool inside = iy >= 0 && iy < c.in_height && ix >= 0 && ix < c.in_width;
                const int32_t a =
                    inside ? tb::value_of(tb::bytes_in(arena)[tb::pixel_at(c.input, c.in_stride, n, iy, ix) + i],
                                          c.in_format)
                           : c.pad;
                sum += a * static_cast<int8_t>(tb::bytes_in(weights)[weight_at(i, ky, kx)]);
            }
        return sum;
    };
    run(c, fpga::depthwise_int8, arena, weights, c.channels, stored, VEC, sum_of,
        [&](int i) { return std::make_pair(i / VEC, i % VEC); });
}

}  // namespace

int main(int argc, char** argv) {
    tb::random_source random(41);
    for (int i = 0; i < tb::share_of(400, argc, argv); i++) conv2d_case(random_geometry(random), random);
    if (tb::with_large_cases(argc, argv)) conv2d_large_cases(random);
    for (int i = 0; i < tb::share_of(200, argc, argv); i++) {
        tb::geometry g = random_geometry(random);
        if (random.chance(0.3)) g.width = random.pick({60, 131});
        depthwise_case(g, random);
    }
    return report.finish();
}
