// Test bench of the core conv2d: both opcodes on random geometries against a convolution in double precision.
#include "core.hpp"

#include "tb/geometry.hpp"
#include "tb/packed.hpp"
#include "tb/tb.hpp"

namespace {

using fpga::ABSENT;
using fpga::VEC;

tb::report report("conv2d");

// Gives a batch of images a place with a random pitch, as a slice of wider pixels would have.
uint32_t place_images(tb::memory& arena, tb::random_source& random, int batch, int height, int width, int channels,
                      int32_t stride[3]) {
    const int lead = random.pick({0, 0, 8, 16, 24});
    stride[2] = fpga::round_up(channels, VEC) + lead + random.pick({0, 0, 16, 40});
    stride[1] = stride[2] * width + random.pick({0, 0, 32});
    stride[0] = stride[1] * height + random.pick({0, 0, 64});
    return arena.allocate(static_cast<int64_t>(stride[0]) * batch + lead) + lead;
}

void fill_images(tb::memory& arena, tb::random_source& random, uint32_t base, const int32_t stride[3], int batch,
                 int height, int width, int channels) {
    for (int n = 0; n < batch; n++)
        for (int y = 0; y < height; y++)
            for (int x = 0; x < width; x++)
                for (int i = 0; i < channels; i++) arena[tb::pixel_at(base, stride, n, y, x) + i] = random.real(-1, 1);
}

// Visits the output's pixels, by the offset of their first channel.
template <class COMMAND, class VISIT>
void each_pixel(const COMMAND& c, const VISIT& visit) {
    for (int n = 0; n < c.batch; n++)
        for (int y = 0; y < c.out_height; y++)
            for (int x = 0; x < c.out_width; x++) visit(tb::pixel_at(c.output, c.out_stride, n, y, x));
}

// Lets `compare` look at the pixels of the output.
template <class COMMAND, class RUN, class COMPARE>
void run_and_compare(const COMMAND& c, RUN run, tb::memory& arena, const tb::memory& weights, int stored,
                     COMPARE compare) {
    tb::run_sliced(report, c, run, arena, weights, stored, [&](const auto& visit) { each_pixel(c, visit); }, compare);
}

// ---- conv2d

void check_conv2d(const fpga::conv2d_command& shape, bool planar, bool dense, tb::random_source& random) {
    fpga::conv2d_command c = shape;
    tb::memory arena, weights;
    const int in_channels = c.groups * c.in_channels;
    const int out_channels = c.groups * c.out_channels;
    const int stored = c.groups > 1 ? out_channels : fpga::round_up(out_channels, VEC);

    if (planar) {
        c.in_stride[3] = 1;
        c.in_stride[2] = c.in_width + (dense ? 0 : random.integer(0, 5));
        c.in_stride[1] = c.in_stride[2] * c.in_height;
        c.in_stride[0] = c.in_stride[1] * in_channels;
    } else {
        c.in_stride[1] = 1;
        c.in_stride[3] = dense ? in_channels : fpga::round_up(in_channels, VEC) + random.pick({0, 16, 5});
        c.in_stride[2] = c.in_stride[3] * c.in_width;
        c.in_stride[0] = c.in_stride[2] * c.in_height;
    }
    c.input = arena.allocate(static_cast<int64_t>(c.in_stride[0]) * c.batch);
    const auto input_at = [&](int n, int i, int y, int x) {
        return c.input + static_cast<size_t>(n) * c.in_stride[0] + static_cast<size_t>(i) * c.in_stride[1] +
               static_cast<size_t>(y) * c.in_stride[2] + static_cast<size_t>(x) * c.in_stride[3];
    };
    for (int n = 0; n < c.batch; n++)
        for (int i = 0; i < in_channels; i++)
            for (int y = 0; y < c.in_height; y++)
                for (int x = 0; x < c.in_width; x++) arena[input_at(n, i, y, x)] = random.real(-1, 1);
    if (random.chance(0.1))
        arena[input_at(0, random.integer(0, in_channels - 1), c.in_height / 2, c.in_width / 2)] = NAN;

    const int depth = c.kernel[0] * c.kernel[1] * c.in_channels;
    const int width = c.vectors * VEC;
    const int panels = fpga::ceil_div(c.out_channels, width);
    c.weight_format = random.pick({fpga::FORMAT_F32, fpga::FORMAT_BF16, fpga::FORMAT_F16});
    tb::packed packed(weights, static_cast<int64_t>(c.groups) * panels * depth * width, c.weight_format);
    c.weight = packed.offset();
    c.bias = random.chance(0.7) ? weights.allocate(static_cast<int64_t>(c.groups) * panels * width) : ABSENT;
    const auto weight_at = [&](int g, int o, int k) {
        return (static_cast<int64_t>(g * panels + o / width) * depth + k) * width + o % width;
    };
    for (int g = 0; g < c.groups; g++)
        for (int o = 0; o < panels * width; o++) {
            const bool real = o < c.out_channels;
            for (int k = 0; k < depth; k++) packed.set(weight_at(g, o, k), real ? random.real(-0.5f, 0.5f) : 0);
            if (c.bias != ABSENT) weights[c.bias + g * panels * width + o] = real ? random.real(-1, 1) : 0;
        }

    c.output = place_images(arena, random, c.batch, c.out_height, c.out_width, stored, c.out_stride);
    c.residual = ABSENT;
    if (random.chance(0.4)) {
        c.residual = place_images(arena, random, c.batch, c.out_height, c.out_width, stored, c.residual_stride);
        fill_images(arena, random, c.residual, c.residual_stride, c.batch, c.out_height, c.out_width, out_channels);
    }
    tb::random_activation(c, random);

    std::vector<double> expected, tolerance;
    for (int n = 0; n < c.batch; n++)
        for (int y = 0; y < c.out_height; y++)
            for (int x = 0; x < c.out_width; x++)
                for (int o = 0; o < out_channels; o++) {
                    const int g = o / c.out_channels;
                    double sum = 0, absolute = 0;
                    int k = 0;
                    for (int r = 0; r < c.kernel[0]; r++)
                        for (int s = 0; s < c.kernel[1]; s++)
                            for (int i = 0; i < c.in_channels; i++, k++) {
                                const int iy = y * c.stride[0] - c.padding[0] + r * c.dilation[0];
                                const int ix = x * c.stride[1] - c.padding[1] + s * c.dilation[1];
                                if (iy < 0 || iy >= c.in_height || ix < 0 || ix >= c.in_width) continue;
                                const double term =
                                    static_cast<double>(arena[input_at(n, g * c.in_channels + i, iy, ix)]) *
                                    packed[weight_at(g, o % c.out_channels, k)];
                                sum += term;
                                absolute += std::fabs(term);
                            }
                    if (c.bias != ABSENT) sum += weights[c.bias + g * panels * width + o % c.out_channels];
                    if (c.residual != ABSENT) sum += arena[tb::pixel_at(c.residual, c.residual_stride, n, y, x) + o];
                    expected.push_back(tb::reference_activation(sum, c.activation, c.act_a, c.act_b));
                    tolerance.push_back(tb::sum_tolerance(absolute + 2, depth));
                }
#ifndef __SYNTHESIS__
    if (!report.bounded(c, fpga::conv2d_bounds, arena, weights)) return;
#endif
    run_and_compare(c, fpga::conv2d, arena, weights, stored, [&](const std::string& run) {
        size_t i = 0;
        for (int n = 0; n < c.batch; n++)
            for (int y = 0; y < c.out_height; y++)
                for (int x = 0; x < c.out_width; x++)
                    for (int o = 0; o < out_channels; o++, i++)
                        report.close(arena[tb::pixel_at(c.output, c.out_stride, n, y, x) + o], expected[i],
                                     tolerance[i], run + tb::text_of_pixel(n, y, x, o));
    });
    if (c.weight_format != fpga::FORMAT_F32) {
        fpga::conv2d_command wide = c;
        wide.weight = packed.widened();
        wide.weight_format = fpga::FORMAT_F32;
        const auto rows = [&](const auto& visit) { each_pixel(c, visit); };
        tb::compare_with_floats(report, c, wide, fpga::conv2d, arena, weights, stored, rows);
    }
}

void conv2d_case(const tb::geometry& g, tb::random_source& random) {
    fpga::conv2d_command c = {};
    if (!tb::take_geometry(c, g)) return;
    c.groups = g.groups;
    c.in_channels = g.in_channels;
    c.out_channels = g.out_channels;
    c.vectors = fpga::minimum(g.vectors, fpga::tile::MAX_VECTORS);
    report.begin("conv2d " + tb::text_of(g));
    check_conv2d(c, g.planar, g.dense, random);
}

tb::geometry random_geometry(tb::random_source& random) {
    return tb::random_geometry(random, {1, 3, 10, 16, 17, 58, 64, 100});
}

// Shapes that reach what random small ones do not: several blocks of k, of rows, of columns, and the gather.
void conv2d_large_cases(tb::random_source& random) {
    const tb::geometry cases[] = {
        {1, 1, 320, 7, 7, 64, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 4, false, false},          // k = 2880: two blocks
        {1, 1, 2100, 3, 5, 70, {1, 1}, {1, 1}, {0, 0}, {1, 1}, {0, 0}, 4, false, false},         // direct, two blocks
        {1, 1, 2100, 3, 5, 20, {1, 1}, {1, 1}, {0, 0}, {1, 1}, {0, 0}, 2, true, true},           // planar, two blocks
        {1, 1, 512, 12, 12, 16, {3, 3}, {1, 1}, {12, 12}, {12, 12}, {12, 12}, 1, false, false},  // gather
        {1, 1, 1024, 5, 40, 16, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1, false, false},        // column blocks
        {1, 1, 2048, 4, 4, 16, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1, false, true},          // k > KOFF
        {1, 1, 2048, 4, 4, 16, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1, true, true},
        {1, 1, 480, 1, 700, 16, {3, 1}, {1, 1}, {1, 0}, {1, 1}, {1, 0}, 1, false, false},  // many column blocks
        {1, 1, 1, 2, 2200, 16, {1, 3}, {1, 1}, {0, 1}, {1, 1}, {0, 1}, 1, true, true},     // row wider than a block
        {1, 1, 3, 2, 2200, 5, {1, 1}, {1, 1}, {0, 0}, {1, 1}, {0, 0}, 4, false, true},
        {2, 1, 3, 60, 64, 64, {7, 7}, {2, 2}, {3, 3}, {1, 1}, {3, 3}, 4, true, true},     // stem
        {1, 1, 16, 70, 64, 32, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 2, false, false},  // row blocks
    };
    for (const tb::geometry& g : cases) conv2d_case(g, random);
}

// ---- depthwise

void check_depthwise(fpga::depthwise_command c, tb::random_source& random) {
    tb::memory arena, weights;
    const int stored = fpga::round_up(c.channels, VEC);
    const int taps = c.kernel[0] * c.kernel[1];
    c.input = place_images(arena, random, c.batch, c.in_height, c.in_width, c.channels, c.in_stride);
    fill_images(arena, random, c.input, c.in_stride, c.batch, c.in_height, c.in_width, c.channels);
    c.weight = weights.allocate_random(static_cast<int64_t>(taps) * stored, random);
    c.bias = random.chance(0.7) ? weights.allocate_random(stored, random) : ABSENT;
    c.output = place_images(arena, random, c.batch, c.out_height, c.out_width, c.channels, c.out_stride);
    c.residual = ABSENT;
    if (random.chance(0.3)) {
        c.residual = place_images(arena, random, c.batch, c.out_height, c.out_width, c.channels, c.residual_stride);
        fill_images(arena, random, c.residual, c.residual_stride, c.batch, c.out_height, c.out_width, c.channels);
    }
    tb::random_activation(c, random);

#ifndef __SYNTHESIS__
    if (!report.bounded(c, fpga::depthwise_bounds, arena, weights)) return;
#endif
    run_and_compare(c, fpga::depthwise, arena, weights, stored, [&](const std::string& run) {
        for (int n = 0; n < c.batch; n++)
            for (int y = 0; y < c.out_height; y++)
                for (int x = 0; x < c.out_width; x++)
                    for (int i = 0; i < c.channels; i++) {
                        double sum = c.bias == ABSENT ? 0 : weights[c.bias + i], absolute = 2;
                        for (int r = 0; r < c.kernel[0]; r++)
                            for (int s = 0; s < c.kernel[1]; s++) {
                                const int iy = y * c.stride[0] - c.padding[0] + r * c.dilation[0];
                                const int ix = x * c.stride[1] - c.padding[1] + s * c.dilation[1];
                                if (iy < 0 || iy >= c.in_height || ix < 0 || ix >= c.in_width) continue;
                                const double term =
                                    static_cast<double>(arena[tb::pixel_at(c.input, c.in_stride, n, iy, ix) + i]) *
                                    weights[c.weight + static_cast<size_t>(r * c.kernel[1] + s) * stored + i];
                                sum += term;
                                absolute += std::fabs(term);
                            }
                        if (c.residual != ABSENT)
                            sum += arena[tb::pixel_at(c.residual, c.residual_stride, n, y, x) + i];
                        report.close(arena[tb::pixel_at(c.output, c.out_stride, n, y, x) + i],
                                     tb::reference_activation(sum, c.activation, c.act_a, c.act_b),
                                     tb::sum_tolerance(absolute, taps), run + tb::text_of_pixel(n, y, x, i));
                    }
    });
}

void depthwise_case(const tb::geometry& g, tb::random_source& random) {
    fpga::depthwise_command c = {};
    if (!tb::take_geometry(c, g)) return;
    c.channels = g.in_channels;
    report.begin("depthwise " + tb::text_of(g));
    check_depthwise(c, random);
}

}  // namespace

int main(int argc, char** argv) {
    tb::random_source random(20);
    for (int i = 0; i < tb::share_of(400, argc, argv); i++) conv2d_case(random_geometry(random), random);
    if (tb::with_large_cases(argc, argv)) conv2d_large_cases(random);
    for (int i = 0; i < tb::share_of(300, argc, argv); i++) {
        tb::geometry g = random_geometry(random);
        if (random.chance(0.6)) {  // the tiles that are compiled for their kernel
            g.kernel[0] = g.kernel[1] = random.pick({3, 5, 7});
            g.stride[1] = random.integer(1, 2);
            g.dilation[0] = g.dilation[1] = 1;
            g.padding[0] = random.integer(1, 3);
            g.width = random.integer(1, 34);
        }
        depthwise_case(g, random);
    }
    return report.finish();
}
