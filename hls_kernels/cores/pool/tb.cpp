// Random pools against a plain reference in double precision.
#include "core.hpp"

#include "tb/tb.hpp"

namespace {

using fpga::pool_command;

double activate(double x, const pool_command& c) {
    if (c.activation == fpga::ACT_RELU) return std::isnan(x) ? x : std::max(x, 0.0);
    if (c.activation == fpga::ACT_SIGMOID) return 1 / (1 + std::exp(-x));
    return x;
}

double reference(const pool_command& c, const tb::memory& arena, int n, int oy, int ox, int ch) {
    double best = -INFINITY, sum = 0;
    int64_t real = 0, counted = 0;
    int begin[2], taps[2], step[2];
    const int at[2] = {oy, ox}, in[2] = {c.in_height, c.in_width}, out[2] = {c.out_height, c.out_width};
    for (int a = 0; a < 2; a++) {
        begin[a] = at[a] * c.stride[a] - c.padding[a];
        taps[a] = c.kernel[a];
        step[a] = c.dilation[a];
        if (c.adaptive) {
            begin[a] = static_cast<int>(std::floor(double(at[a]) * in[a] / out[a]));
            taps[a] = static_cast<int>(std::ceil(double(at[a] + 1) * in[a] / out[a])) - begin[a];
            step[a] = 1;
        }
    }
    for (int i = 0; i < taps[0]; i++)
        for (int j = 0; j < taps[1]; j++) {
            const int y = begin[0] + i * step[0], x = begin[1] + j * step[1];
            if (y < in[0] + (c.adaptive ? 0 : c.padding[0]) && x < in[1] + (c.adaptive ? 0 : c.padding[1])) counted++;
            if (y < 0 || x < 0 || y >= in[0] || x >= in[1]) continue;
            const double v = arena[c.input + int64_t(n) * c.in_stride[0] + int64_t(y) * c.in_stride[1] +
                                   int64_t(x) * c.in_stride[2] + ch];
            real++;
            sum += v;
            if (std::isnan(v) || v > best) best = std::isnan(best) ? best : v;
        }
    if (c.kind == fpga::POOL_MAX) return activate(best, c);
    const int64_t divisor = c.divisor ? c.divisor : c.count_include_pad ? counted : real;
    return activate(real ? sum / divisor : 0, c);
}

void run(tb::report& report, tb::random_source& random, int round) {
    pool_command c = {};
    c.opcode = fpga::OP_POOL;
    c.kind = random.pick({fpga::POOL_MAX, fpga::POOL_AVERAGE});
    c.batch = random.integer(1, 2);
    c.channels = random.pick({1, 3, 10, 16, 17, 32, 40, 64, 72, 130});
    c.adaptive = random.chance(0.2);
    c.count_include_pad = random.chance(0.5);
    c.divisor = random.chance(0.1) ? 5 : 0;
    c.activation = random.pick({fpga::ACT_NONE, fpga::ACT_NONE, fpga::ACT_RELU, fpga::ACT_SIGMOID});
    const bool common = random.chance(0.5);  // the shapes with tiles
    int* const in[2] = {&c.in_height, &c.in_width};
    int* const out[2] = {&c.out_height, &c.out_width};
    const int k = random.pick({2, 3, 3}), s = k == 2 ? 2 : random.integer(1, 2);
    for (int a = 0; a < 2; a++) {
        c.kernel[a] = common ? k : random.integer(1, 5);
        c.stride[a] = common ? s : random.integer(1, 4);
        c.dilation[a] = common ? 1 : random.integer(1, 2);
        c.padding[a] = random.integer(0, c.kernel[a] / 2);
        const int reach = (c.kernel[a] - 1) * c.dilation[a] + 1;
        *in[a] = random.integer(std::max(1, reach - 2 * c.padding[a]), common ? 40 : 14);
        const int room = *in[a] + 2 * c.padding[a] - reach;
        *out[a] = room / c.stride[a] + 1;
        const bool ceil_mode = random.chance(0.4);
        if (ceil_mode && room % c.stride[a] && *out[a] * c.stride[a] < *in[a] + c.padding[a]) ++*out[a];
        if (c.adaptive) *out[a] = random.chance(0.4) ? 1 : random.integer(1, 9);
    }
    const bool dense = random.chance(0.2);
    const int pixel = dense ? c.channels : fpga::round_up(c.channels, 16);
    c.in_stride[2] = c.out_stride[2] = pixel;
    if (random.chance(0.3)) c.in_stride[2] += dense ? 3 : 16;
    if (random.chance(0.3)) c.out_stride[2] += dense ? 5 : 32;
    c.in_stride[1] = c.in_stride[2] * c.in_width;
    c.out_stride[1] = c.out_stride[2] * c.out_width;
    c.in_stride[0] = c.in_stride[1] * c.in_height;
    c.out_stride[0] = c.out_stride[1] * c.out_height;

    tb::memory arena;
    c.input = arena.allocate(int64_t(c.batch) * c.in_stride[0]);
    c.output = arena.allocate(int64_t(c.batch) * c.out_stride[0]);
    const bool nans = random.chance(0.2);
    for (int64_t i = 0; i < int64_t(c.batch) * c.in_stride[0]; i++)
        if (i % c.in_stride[2] < c.channels)
            arena[c.input + i] = nans && random.chance(0.02) ? NAN : random.real(-1, 1);
    report.begin((c.kind == fpga::POOL_MAX ? "max " : "average ") + std::to_string(c.channels) + "x" +
                 std::to_string(c.in_height) + "x" + std::to_string(c.in_width) + " kernel " +
                 std::to_string(c.kernel[0]) + "x" + std::to_string(c.kernel[1]) + " stride " +
                 std::to_string(c.stride[1]) + " out " + std::to_string(c.out_height) + "x" +
                 std::to_string(c.out_width) + " adaptive " + std::to_string(c.adaptive));
#ifndef __SYNTHESIS__
    report.bounded(c, fpga::pool_bounds, arena, tb::memory());
#endif
    arena.watch();
    for (int n = 0; n < c.batch; n++)
        for (int y = 0; y < c.out_height; y++)
            for (int x = 0; x < c.out_width; x++)
                arena.allow(c.output + int64_t(n) * c.out_stride[0] + y * c.out_stride[1] + x * c.out_stride[2],
                            c.channels);
    const uint32_t slices = round % 2 ? 3 : 1;
    for (uint32_t slice = 0; slice < slices; slice++)
        report.check(fpga::pool(c, nullptr, arena.region(), nullptr, slice, slices) == fpga::STATUS_OK, "status");
    for (int n = 0; n < c.batch; n++)
        for (int y = 0; y < c.out_height; y++)
            for (int x = 0; x < c.out_width; x++)
                for (int ch = 0; ch < c.channels; ch++)
                    report.close(
                        arena[c.output + int64_t(n) * c.out_stride[0] + y * c.out_stride[1] + x * c.out_stride[2] + ch],
                        reference(c, arena, n, y, x, ch), 3e-6, "pixel " + std::to_string(y) + "," + std::to_string(x));
    report.check(arena.stray() < 0, "stores outside its output at " + std::to_string(arena.stray()));
}

}  // namespace

int main(int argc, char** argv) {
    tb::report report("pool");
    tb::random_source random(2);
    for (int round = 0; round < tb::share_of(600, argc, argv); round++) run(report, random, round);
    return report.finish();
}
