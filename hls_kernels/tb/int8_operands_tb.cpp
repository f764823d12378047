// Test bench of lib/int8/real.hpp in the cores that use it: with bytes at either end reduce and resample give what the same
// command gives between floats, to the bit, of the numbers that the bytes stand for.
#include "cores/move/core.hpp"
#include "cores/reduce/core.hpp"

#include "tb/int8.hpp"

namespace {

using namespace fpga;

tb::report report("int8_operands");

// The ends of a command, at random: either or both are bytes.
template <class COMMAND>
void random_ends(COMMAND& c, tb::random_source& random, bool in, bool out) {
    c.in_format = in ? tb::random_format(random) : FORMAT_F32;
    c.in_zero = in ? tb::random_value(random, c.in_format) : 0;
    c.in_scale = in ? random.pick({0.0625f, random.real(0.001f, 0.3f)}) : 0.0f;
    c.out_format = out ? tb::random_format(random) : FORMAT_F32;
    if (!out) return;
    const int32_t least = least_of(c.out_format);
    c.out_zero = tb::random_value(random, c.out_format);
    c.out_low = random.chance(0.7) ? least : random.integer(least, c.out_zero);
    c.out_high = random.chance(0.7) ? least + 255 : random.integer(c.out_zero, least + 255);
    c.out_inverse = random.pick({16.0f, 256.0f, random.real(1, 300)});
}

float real_of(const real_input& in, uint8_t byte) {
    return static_cast<float>(tb::value_of(byte, in.format) - in.zero) * in.scale;
}

int32_t byte_of(const real_output& out, float x) {
    if (std::isnan(x)) return 0;
    const float whole = std::nearbyint(x * out.inverse);
    const float low = static_cast<float>(out.low - out.zero), high = static_cast<float>(out.high - out.zero);
    return static_cast<int32_t>(whole < low ? low : whole > high ? high : whole) + out.zero;
}

// `elements` of input and results of a command, where any place may be read or written. Runs it between bytes and between
// floats; written(at)
// says whether the result has an element there; bounded(c) checks the command's bounds.
template <class COMMAND, class CORE, class BOUNDED, class WRITTEN>
void compare(const COMMAND& given, int64_t in_elements, int64_t out_elements, CORE core, BOUNDED bounded,
             tb::memory& arena, const tb::memory& weights, WRITTEN written, tb::random_source& random) {
    COMMAND c = given, floats = given;
    const real_input in = real_input_of(c);
    const real_output out = real_output_of(c);
    floats.in_format = floats.out_format = FORMAT_F32;
    floats.input = arena.allocate_random(in_elements, random);
    floats.output = arena.allocate(out_elements);
    if (in.format == FORMAT_F32) {
        c.input = floats.input;
    } else {
        c.input = tb::random_bytes(arena, random, in_elements);
        for (int64_t i = 0; i < in_elements; i++)
            arena[floats.input + i] = real_of(in, tb::bytes_in(arena)[c.input + i]);
    }
    const bool bytes = out.format != FORMAT_F32;
    c.output = bytes ? tb::allocate_bytes(arena, out_elements) : arena.allocate(out_elements);
    bounded(c);
    report.check(core(floats, nullptr, arena.region(), weights.region(), 0, 1) == STATUS_OK, "status of floats");
    const auto each = [&](const auto& visit) {
        for (int64_t i = 0; i < out_elements; i++)
            if (written(i)) visit(static_cast<size_t>((bytes ? 1 : 4) * (c.output + i)));
    };
    tb::run_bytes_sliced(report, c, core, arena, weights, bytes ? 1 : 4, each, [&] {
        for (int64_t i = 0; i < out_elements; i++) {
            if (!written(i)) continue;
            const float real = arena[floats.output + i];
            const double expected = bytes ? tb::value_of(static_cast<uint8_t>(byte_of(out, real)), out.format) : real;
            const double got = bytes ? tb::value_of(tb::bytes_in(arena)[c.output + i], out.format)
                                     : arena[c.output + i];
            report.close(static_cast<float>(got), expected, 0, "element " + std::to_string(i));
        }
    });
}

void run_reduce(tb::random_source& random) {
    tb::memory arena, weights;
    reduce_command c = {};
    c.kind = random.pick({REDUCE_SOFTMAX, REDUCE_LOG_SOFTMAX, REDUCE_NORM, REDUCE_RMS_NORM});
    const int ends = random.integer(0, 2);
    random_ends(c, random, ends != 1, ends != 0);
    c.eps = 1e-5f;
    c.second = ABSENT;
    const int32_t rows[2] = {random.integer(1, 4), random.pick({1, 3, 4, 9, 17})};
    const int32_t width = random.pick({1, 7, 16, 33, 64, 100, 200, random.chance(0.1) ? 1500 : 65});
    const int32_t pitch[2] = {width + random.pick({0, 0, 5}), width + random.pick({0, 0, 16})};
    c.kept[0] = 1;
    c.kept[1] = rows[0];
    c.kept[2] = rows[1];
    c.reduced[0] = c.reduced[1] = 1;
    c.reduced[2] = width;
    c.in_stride[1] = rows[1] * pitch[0];
    c.in_stride[2] = pitch[0];
    c.out_stride[1] = rows[1] * pitch[1];
    c.out_stride[2] = pitch[1];
    c.in_stride[5] = c.out_stride[5] = c.affine_stride[5] = 1;
    c.scale = random.chance(0.6) ? weights.allocate_random(width, random) : uint32_t{ABSENT};
    c.shift = random.chance(0.6) ? weights.allocate_random(width, random) : uint32_t{ABSENT};
    report.begin("reduce kind " + std::to_string(c.kind) + " of " + std::to_string(rows[0] * rows[1]) + " x " +
                 std::to_string(width));
    const reduce_plan plan = plan_reduce(c);
    if (plan.of_bytes && !item_at(c, plan, reduce_position_of(plan, 0)).fits) return;
    const auto bounded = [&](const reduce_command& command) {
#ifndef __SYNTHESIS__
        report.bounded(command, reduce_bounds, arena, weights);
#else
        (void)command;
#endif
    };
    const auto written = [&](int64_t i) { return i % pitch[1] < width; };
    compare(c, int64_t{rows[0]} * rows[1] * pitch[0], int64_t{rows[0]} * rows[1] * pitch[1], reduce, bounded, arena,
            weights, written, random);
}

void run_resample(tb::random_source& random) {
    tb::memory arena, weights;
    resample_command c = {};
    const int ends = random.integer(0, 2);
    random_ends(c, random, ends != 1, ends != 0);
    c.mode = random.pick({RESAMPLE_NEAREST, RESAMPLE_BILINEAR});
    c.batch = random.integer(1, 2);
    c.channels = random.pick({1, 3, 16, 20, 48});
    c.in_height = random.integer(1, 7);
    c.in_width = random.integer(1, 7);
    c.out_height = random.integer(1, 11);
    c.out_width = random.integer(1, 11);
    c.scale[0] = static_cast<float>(c.in_height) / static_cast<float>(c.out_height);
    c.scale[1] = static_cast<float>(c.in_width) / static_cast<float>(c.out_width);
    const int32_t pixel = random.chance(0.3) ? c.channels : round_up(c.channels, 16);
    c.in_stride[2] = c.out_stride[2] = pixel;
    c.in_stride[1] = pixel * c.in_width;
    c.out_stride[1] = pixel * c.out_width;
    c.in_stride[0] = c.in_stride[1] * c.in_height;
    c.out_stride[0] = c.out_stride[1] * c.out_height;
    report.begin("resample mode " + std::to_string(c.mode) + " of " + std::to_string(c.channels) + " channels");
    const auto bounded = [&](const resample_command& command) {
#ifndef __SYNTHESIS__
        report.bounded(command, resample_bounds, arena, weights);
#else
        (void)command;
#endif
    };
    const auto written = [&](int64_t i) { return i % pixel < c.channels; };
    compare(c, int64_t{c.batch} * c.in_stride[0], int64_t{c.batch} * c.out_stride[0], resample, bounded, arena, weights,
            written, random);
}

}  // namespace

int main(int argc, char** argv) {
    tb::random_source random(23);
    for (int round = 0; round < tb::share_of(600, argc, argv); round++) run_reduce(random);
    for (int round = 0; round < tb::share_of(400, argc, argv); round++) run_resample(random);
    return report.finish();
}
