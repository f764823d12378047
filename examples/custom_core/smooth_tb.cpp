// Test bench of the core: random shapes, and any number of slices, against a double-precision reference.
#include "smooth.hpp"

#include <vector>

#include "tb/tb.hpp"

int main() {
    tb::report report("smooth");
    tb::random_source random(1);
    for (int n = 0; n < 200; n++) {
        fpga::smooth_command c = {};
        c.sequences = random.integer(1, 3);
        c.steps = random.integer(1, 20);
        c.channels = random.integer(1, 300);
        c.decay = random.real(0, 1);
        const int row = fpga::round_up(c.channels, fpga::VEC);
        c.in_stride[1] = row + fpga::VEC * random.integer(0, 2);
        c.out_stride[1] = row + fpga::VEC * random.integer(0, 2);
        c.in_stride[0] = c.in_stride[1] * c.steps;
        c.out_stride[0] = c.out_stride[1] * c.steps;
        const uint32_t slices = random.pick({1, 2, 3, 7});
        report.begin(std::to_string(c.sequences) + " x " + std::to_string(c.steps) + " x " +
                     std::to_string(c.channels) + ", slices " + std::to_string(slices));

        tb::memory arena, none;
        c.input = arena.allocate_random(static_cast<int64_t>(c.in_stride[0]) * c.sequences, random);
        c.output = arena.allocate(static_cast<int64_t>(c.out_stride[0]) * c.sequences);
        if (!report.bounded(c, fpga::smooth_bounds, arena, none)) continue;
        arena.watch();
        for (int s = 0; s < c.sequences; s++)
            for (int t = 0; t < c.steps; t++) arena.allow(c.output + s * c.out_stride[0] + t * c.out_stride[1], row);
        for (uint32_t slice = 0; slice < slices; slice++)
            fpga::smooth(c, none.region(), arena.region(), none.region(), slice, slices);

        report.check(arena.stray() < 0, "stores outside its output");
        for (int s = 0; s < c.sequences; s++) {
            std::vector<double> state(c.channels, 0.0);
            for (int t = 0; t < c.steps; t++)
                for (int i = 0; i < c.channels; i++) {
                    const double x = arena[c.input + s * c.in_stride[0] + t * c.in_stride[1] + i];
                    state[i] = c.decay * state[i] + (1.0 - c.decay) * x;
                    report.close(arena[c.output + s * c.out_stride[0] + t * c.out_stride[1] + i], state[i], 2e-6,
                                 "step " + std::to_string(t) + ", channel " + std::to_string(i));
                }
        }
    }
    return report.finish();
}
