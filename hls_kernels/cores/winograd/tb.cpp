// Test bench of the core winograd: both tile sizes on random geometries against a convolution in double precision.
#include "core.hpp"

#include <array>
#include <functional>

#include "tb/tb.hpp"

namespace {

using fpga::ABSENT;
using fpga::VEC;

tb::report report("winograd");

// Pixels of a batch of images: place of a pixel's first channel in the arena.
struct image_batch {
    uint32_t base;
    int32_t stride[3];
    int batch, height, width, channels;

    size_t at(int n, int y, int x) const {
        return base + static_cast<size_t>(n) * stride[0] + static_cast<size_t>(y) * stride[1] +
               static_cast<size_t>(x) * stride[2];
    }
    void each_pixel(const std::function<void(size_t)>& visit) const {
        for (int n = 0; n < batch; n++)
            for (int y = 0; y < height; y++)
                for (int x = 0; x < width; x++) visit(at(n, y, x));
    }
};

// Images with random pitches, as slices of wider pixels have; channels beyond `channels` stay poisoned.
image_batch place(tb::memory& arena, tb::random_source& random, int batch, int height, int width, int channels) {
    image_batch images = {0, {}, batch, height, width, channels};
    const int lead = random.pick({0, 0, 16, 32});
    images.stride[2] = fpga::round_up(channels, VEC) + lead + random.pick({0, 0, 16});
    images.stride[1] = images.stride[2] * width + random.pick({0, 0, 32});
    images.stride[0] = images.stride[1] * height + random.pick({0, 0, 64});
    images.base = fpga::round_up(arena.allocate(static_cast<int64_t>(images.stride[0]) * batch + lead + VEC), VEC);
    images.base += lead;
    return images;
}

void fill(tb::memory& arena, tb::random_source& random, const image_batch& images) {
    images.each_pixel([&](size_t at) {
        for (int i = 0; i < images.channels; i++) arena[at + i] = random.real(-1, 1);
    });
}

// Row p of G: what the polynomial g gives at point p, over the product of p's distances from the other points.
std::vector<std::array<double, 3>> weight_transform(int tile_size) {
    const std::vector<double> points = tile_size == 2 ? std::vector<double>{0, 1, -1}
                                                      : std::vector<double>{0, 0.625, -0.625, 1.5, -1.5};
    std::vector<std::array<double, 3>> rows;
    for (double p : points) {
        double distances = 1;
        for (double other : points)
            if (other != p) distances *= p - other;
        rows.push_back({1 / distances, p / distances, p * p / distances});
    }
    rows.push_back({0, 0, 1});
    return rows;
}

struct geometry {
    int tile_size, batch, in_channels, height, width, out_channels;
    int padding[2], after[2];  // above and left, below and right
    int vectors;
};

std::string text_of(const geometry& g) {
    char text[160];
    std::snprintf(text, sizeof text, "F%d, %d x %d x %d x %d -> %d, padding %d %d + %d %d, vectors %d", g.tile_size,
                  g.batch, g.in_channels, g.height, g.width, g.out_channels, g.padding[0], g.padding[1], g.after[0],
                  g.after[1], g.vectors);
    return text;
}

void winograd_case(const geometry& g, tb::random_source& random) {
    fpga::winograd_command c = {};
    c.tile_size = g.tile_size;
    c.batch = g.batch;
    c.in_channels = g.in_channels;
    c.in_height = g.height;
    c.in_width = g.width;
    c.out_channels = g.out_channels;
    c.out_height = g.height + g.padding[0] + g.after[0] - 2;
    c.out_width = g.width + g.padding[1] + g.after[1] - 2;
    if (c.out_height < 1 || c.out_width < 1) return;
    c.padding[0] = g.padding[0];
    c.padding[1] = g.padding[1];
    c.vectors = fpga::minimum(g.vectors, fpga::tile::MAX_VECTORS);
    report.begin(text_of(g));

    tb::memory arena, weights;
    const image_batch input = place(arena, random, c.batch, c.in_height, c.in_width, c.in_channels);
    const image_batch output = place(arena, random, c.batch, c.out_height, c.out_width, c.out_channels);
    const image_batch other = place(arena, random, c.batch, c.out_height, c.out_width, c.out_channels);
    fill(arena, random, input);
    fill(arena, random, other);
    c.input = input.base;
    c.output = output.base;
    c.residual = random.chance(0.4) ? other.base : ABSENT;
    for (int i = 0; i < 3; i++) {
        c.in_stride[i] = input.stride[i];
        c.out_stride[i] = output.stride[i];
        c.residual_stride[i] = other.stride[i];
    }
    tb::random_activation(c, random);

    const int width = c.vectors * VEC, panels = fpga::ceil_div(c.out_channels, width);
    const int patch = c.tile_size + 2;
    std::vector<double> kernel(static_cast<size_t>(c.out_channels) * c.in_channels * 9);
    for (double& w : kernel) w = random.real(-0.5f, 0.5f);
    c.weight = fpga::round_up(
        weights.allocate(static_cast<int64_t>(panels) * patch * patch * c.in_channels * width + VEC), VEC);
    c.bias = random.chance(0.7) ? weights.allocate(panels * width) : ABSENT;
    const auto rows = weight_transform(c.tile_size);
    for (int o = 0; o < panels * width; o++) {
        const bool real = o < c.out_channels;
        if (c.bias != ABSENT) weights[c.bias + o] = real ? random.real(-1, 1) : 0;
        for (int i = 0; i < c.in_channels; i++)
            for (int e = 0; e < patch * patch; e++) {
                double sum = 0;
                for (int t = 0; real && t < 9; t++)
                    sum += rows[e / patch][t / 3] * rows[e % patch][t % 3] *
                           kernel[(static_cast<size_t>(o) * c.in_channels + i) * 9 + t];
                weights[c.weight + ((static_cast<size_t>(o / width) * patch * patch + e) * c.in_channels + i) * width +
                        o % width] = static_cast<float>(sum);
            }
    }

    std::vector<double> expected, tolerance;
    for (int n = 0; n < c.batch; n++)
        for (int y = 0; y < c.out_height; y++)
            for (int x = 0; x < c.out_width; x++)
                for (int o = 0; o < c.out_channels; o++) {
                    double sum = c.bias == ABSENT ? 0 : weights[c.bias + o], absolute = 2;
                    for (int t = 0; t < 9; t++) {
                        const int iy = y - c.padding[0] + t / 3, ix = x - c.padding[1] + t % 3;
                        if (iy < 0 || iy >= c.in_height || ix < 0 || ix >= c.in_width) continue;
                        for (int i = 0; i < c.in_channels; i++) {
                            const double term = arena[input.at(n, iy, ix) + i] *
                                                kernel[(static_cast<size_t>(o) * c.in_channels + i) * 9 + t];
                            sum += term;
                            absolute += std::fabs(term);
                        }
                    }
                    if (c.residual != ABSENT) sum += arena[other.at(n, y, x) + o];
                    expected.push_back(tb::reference_activation(sum, c.activation, c.act_a, c.act_b));
                    tolerance.push_back(8 * tb::sum_tolerance(absolute, 9.0 * c.in_channels));
                }
#ifndef __SYNTHESIS__
    if (!report.bounded(c, fpga::winograd_bounds, arena, weights)) return;
#endif
    const int stored = fpga::round_up(c.out_channels, VEC);
    const auto each_row = [&](const auto& visit) { output.each_pixel(visit); };
    tb::run_sliced(report, c, fpga::winograd, arena, weights, stored, each_row, [&](const std::string& where) {
        size_t i = 0;
        output.each_pixel([&](size_t at) {
            for (int o = 0; o < c.out_channels; o++, i++)
                report.close(arena[at + o], expected[i], tolerance[i], where + "float " + std::to_string(at + o));
        });
    });
}

geometry random_geometry(tb::random_source& random) {
    geometry g;
    g.tile_size = random.pick({2, 4});
    g.batch = random.pick({1, 1, 2, 3});
    g.in_channels = random.pick({1, 3, 10, 16, 17, 32, 58, 64, 100});
    g.out_channels = random.pick({1, 3, 16, 17, 58, 64, 100, 130});
    g.height = random.pick({1, 2, 3, 5, 7, 8, 9, 14});
    g.width = random.pick({1, 3, 4, 6, 7, 8, 14, 19});
    for (int i = 0; i < 2; i++) {
        g.padding[i] = random.pick({0, 1, 1, 2});
        g.after[i] = random.pick({g.padding[i], g.padding[i], 0, 3});
    }
    g.vectors = random.integer(1, fpga::tile::MAX_VECTORS);
    return g;
}

}  // namespace

int main(int argc, char** argv) {
    tb::random_source random(24);
    for (int i = 0; i < tb::share_of(250, argc, argv); i++) winograd_case(random_geometry(random), random);
    const geometry several_blocks[] = {
        {4, 1, 512, 14, 15, 20, {1, 1}, {1, 1}, 2},
        {2, 2, 512, 9, 12, 20, {1, 1}, {1, 1}, 1},
        {4, 3, 64, 21, 23, 64, {1, 1}, {1, 1}, 4},
        {2, 3, 48, 21, 33, 70, {0, 0}, {0, 0}, 3},
    };
    for (const geometry& g : several_blocks) winograd_case(g, random);
    return report.finish();
}
