// Test bench of the core pool_int8: random windows against plain loops over integers, to the bit.
#include "core.hpp"

#include "tb/int8.hpp"

namespace {

tb::report report("pool_int8");

void run_case(tb::random_source& random) {
    fpga::pool_int8_command c = {};
    tb::memory arena, weights;
    c.kind = random.pick({fpga::POOL_MAX, fpga::POOL_AVERAGE});
    c.batch = random.pick({1, 1, 2});
    c.channels = random.pick({1, 3, 16, 30, 64, 70, 130});
    c.in_height = random.integer(1, 12);
    c.in_width = random.integer(1, 12);
    c.adaptive = random.chance(0.2);
    if (c.adaptive) {
        c.out_height = random.pick({1, c.in_height, 1});
        c.out_width = random.pick({1, c.in_width, 2});
    } else {
        for (int i = 0; i < 2; i++) {
            c.kernel[i] = random.pick({1, 2, 3, 3});
            c.stride[i] = random.integer(1, 3);
            c.dilation[i] = random.pick({1, 1, 2});
            c.padding[i] = random.integer(0, c.kernel[i] / 2);
        }
        const int reach_y = (c.kernel[0] - 1) * c.dilation[0] + 1, reach_x = (c.kernel[1] - 1) * c.dilation[1] + 1;
        c.out_height = (c.in_height + 2 * c.padding[0] - reach_y) / c.stride[0] + 1;
        c.out_width = (c.in_width + 2 * c.padding[1] - reach_x) / c.stride[1] + 1;
        if (c.in_height + 2 * c.padding[0] < reach_y || c.in_width + 2 * c.padding[1] < reach_x) return;
        c.count_include_pad = random.chance(0.5);
        c.divisor = random.pick({0, 0, 5});
    }
    report.begin("pool_int8 " + std::to_string(c.kind) + ", " + std::to_string(c.channels) + " x " +
                 std::to_string(c.in_height) + " x " + std::to_string(c.in_width));
    const auto lay_out = [&](int height, int width, int32_t stride[3]) {
        stride[2] = c.channels + random.pick({0, 0, 16, 5});
        stride[1] = stride[2] * width;
        stride[0] = stride[1] * height + random.pick({0, 7});
        return static_cast<int64_t>(stride[0]) * c.batch;
    };
    c.in_format = tb::random_format(random);
    c.out_format = c.kind == fpga::POOL_MAX ? c.in_format : tb::random_format(random);
    c.in_zero = tb::random_value(random, c.in_format);
    c.out_zero = tb::random_value(random, c.out_format);
    const int32_t least = fpga::least_of(c.out_format);
    c.out_low = random.integer(least, c.out_zero);
    c.out_high = random.integer(c.out_zero, least + 255);
    c.input = tb::random_bytes(arena, random, lay_out(c.in_height, c.in_width, c.in_stride));
    c.output = tb::random_bytes(arena, random, lay_out(c.out_height, c.out_width, c.out_stride));

    const float ratio = random.pick({1.0f, 1.0f, random.real(0.3f, 2)});
    int places = 0;
    const auto scale_of = [&](int32_t divisor) {
        return fpga::make_channel(static_cast<double>(ratio) / divisor, 0, 255.0 * 256 * 256).scale;
    };
    if (c.kind == fpga::POOL_AVERAGE)
        for (int y = 0; y < c.out_height; y++)
            for (int x = 0; x < c.out_width; x++) {
                const int32_t divisor = fpga::int8_divisor(c, fpga::window_of(c, 0, y), fpga::window_of(c, 1, x));
                if (fpga::divisor_place(c, divisor) >= 0) continue;
                if (places == 6) return;
                c.divisors[places] = divisor;
                c.scales[places++] = scale_of(divisor);
            }
#ifndef __SYNTHESIS__
    if (!report.bounded(c, fpga::pool_int8_bounds, arena, weights)) return;
#endif
    const auto rows = [&](const auto& visit) {
        for (int n = 0; n < c.batch; n++)
            for (int y = 0; y < c.out_height; y++)
                for (int x = 0; x < c.out_width; x++)
                    visit(static_cast<size_t>(c.output) + n * c.out_stride[0] + y * c.out_stride[1] +
                          x * c.out_stride[2]);
    };
    tb::run_bytes_sliced(report, c, fpga::pool_int8, arena, weights, c.channels, rows, [&] {
        for (int n = 0; n < c.batch; n++)
            for (int y = 0; y < c.out_height; y++)
                for (int x = 0; x < c.out_width; x++)
                    for (int i = 0; i < c.channels; i++) {
                        const fpga::pool_window down = fpga::window_of(c, 0, y), right = fpga::window_of(c, 1, x);
                        int32_t sum = 0, most = fpga::least_of(c.in_format);
                        for (int ky = 0; ky < down.taps; ky++)
                            for (int kx = 0; kx < right.taps; kx++) {
                                const size_t at = static_cast<size_t>(c.input) + n * c.in_stride[0] +
                                                  (down.begin + ky * down.step) * c.in_stride[1] +
                                                  (right.begin + kx * right.step) * c.in_stride[2] + i;
                                const int32_t value = tb::value_of(tb::bytes_in(arena)[at], c.in_format);
                                sum += value - c.in_zero;
                                most = std::max(most, value);
                            }
                        int32_t expected = most;
                        if (c.kind == fpga::POOL_AVERAGE) {
                            fpga::requantize_tensor t = {};
                            t.zero = c.out_zero;
                            t.low = c.out_low;
                            t.high = c.out_high;
                            const int32_t scale = scale_of(fpga::int8_divisor(c, down, right));
                            expected = fpga::requantize(sum, {0, scale, 0}, 0, t, static_cast<const int8_t*>(nullptr));
                        }
                        const size_t to = static_cast<size_t>(c.output) + n * c.out_stride[0] + y * c.out_stride[1] +
                                          x * c.out_stride[2] + i;
                        report.close(tb::bytes_in(arena)[to], expected & 0xff, 0,
                                     "row " + std::to_string(y) + ", column " + std::to_string(x) + ", channel " +
                                         std::to_string(i));
                    }
    });
}

}  // namespace

int main(int argc, char** argv) {
    tb::random_source random(47);
    for (int i = 0; i < tb::share_of(800, argc, argv); i++) run_case(random);
    return report.finish();
}
