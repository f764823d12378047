// Test bench of the core quantize: every opcode on random nests of loops, to the bit.
#include "core.hpp"

#include "tb/int8.hpp"

namespace {

using fpga::ABSENT;

tb::report report("quantize");

struct nest {
    int32_t dims[5];
    int64_t count() const { return int64_t{dims[0]} * dims[1] * dims[2] * dims[3] * dims[4]; }
};

template <class VISIT>
void each(const nest& n, const VISIT& visit) {
    int32_t at[5];
    for (int64_t i = 0; i < n.count(); i++) {
        int64_t rest = i;
        for (int d = 4; d >= 0; d--) {
            at[d] = static_cast<int32_t>(rest % n.dims[d]);
            rest /= n.dims[d];
        }
        visit(at);
    }
}

int64_t address(int64_t base, const int32_t (&stride)[5], const int32_t (&at)[5]) {
    for (int d = 0; d < 5; d++) base += int64_t{stride[d]} * at[d];
    return base;
}

// Strides with gaps; the order of the outer dimensions is random, or (rows) the last is innermost. Returns what they span.
int64_t lay_out(const nest& n, int32_t (&stride)[5], tb::random_source& random, bool rows) {
    int order[5] = {4, 3, 2, 1, 0};
    if (!rows)
        for (int i = 4; i > 0; i--) std::swap(order[i], order[random.integer(0, i)]);
    int64_t span = 1;
    for (const int d : order) {
        stride[d] = static_cast<int32_t>(span);
        span *= n.dims[d];
        if (random.chance(0.2)) span += random.integer(1, 9);
    }
    return span;
}

nest random_nest(tb::random_source& random) {
    nest n;
    for (int32_t& size : n.dims) size = random.pick({1, 1, 2, 3, 5});
    n.dims[4] = random.pick({1, 3, 16, 33, 64, 100, random.chance(0.05) ? 9000 : 7});
    return n;
}

template <class COMMAND>
void take(COMMAND& c, const nest& n) {
    std::copy(n.dims, n.dims + 5, c.dims);
}

// Runs a command whose results are bytes, or floats (`bytes` = 4), and looks at each element.
template <class COMMAND, class CORE, class EXPECTED>
void run(const COMMAND& c, const nest& n, CORE core, tb::memory& arena, const tb::memory& weights, int bytes,
         EXPECTED expected) {
    const auto rows = [&](const auto& visit) {
        each(n,
             [&](const int32_t (&at)[5]) { visit(static_cast<size_t>(bytes * address(c.output, c.out_stride, at))); });
    };
    tb::run_bytes_sliced(report, c, core, arena, weights, bytes, rows, [&] {
        each(n, [&](const int32_t (&at)[5]) {
            const size_t to = static_cast<size_t>(address(c.output, c.out_stride, at));
            const double got = bytes == 4 ? arena[to] : tb::bytes_in(arena)[to];
            report.close(static_cast<float>(got), expected(at), 0, "element " + std::to_string(to));
        });
    });
}

// Scales and zero points in the arena, each for a row or for all; or none.
template <class COMMAND>
void random_scales(COMMAND& c, tb::memory& arena, tb::random_source& random, const nest& n, int32_t format) {
    c.scales = c.zeros = fpga::ABSENT;
    if (!random.chance(0.4)) return;
    nest own = n;
    if (random.chance(0.8)) own.dims[4] = 1;
    const int64_t count = random.chance(0.3) ? 1 : lay_out(own, c.scale_stride, random, true);
    if (count == 1) std::fill(c.scale_stride, c.scale_stride + 5, 0);
    if (own.dims[4] == 1) c.scale_stride[4] = 0;
    if (random.chance(0.8)) {
        c.scales = arena.allocate(static_cast<size_t>(count));
        for (int64_t i = 0; i < count; i++) arena[static_cast<size_t>(c.scales + i)] = random.real(0.01f, 1);
    }
    if (random.chance(0.5)) {
        c.zeros = arena.allocate(static_cast<size_t>(count));
        for (int64_t i = 0; i < count; i++)
            tb::set_word(arena, static_cast<size_t>(c.zeros + i), tb::random_value(random, format));
    }
}

// Those of an element.
template <class COMMAND>
float scale_at(const COMMAND& c, const tb::memory& arena, const int32_t (&at)[5], float otherwise) {
    return c.scales == fpga::ABSENT ? otherwise : arena[static_cast<size_t>(address(c.scales, c.scale_stride, at))];
}
template <class COMMAND>
int32_t zero_at(const COMMAND& c, const tb::memory& arena, const int32_t (&at)[5]) {
    return c.zeros == fpga::ABSENT ? c.zero
                                   : tb::word_at(arena, static_cast<size_t>(address(c.zeros, c.scale_stride, at)));
}

void quantize_case(tb::random_source& random) {
    fpga::quantize_command c = {};
    tb::memory arena, weights;
    nest n = random_nest(random);
    const bool planes = random.chance(0.3);
    if (planes) n.dims[4] = random.integer(2, 4), n.dims[3] = random.pick({1, 7, 16, 50});
    take(c, n);
    report.begin("quantize");
    const int64_t read = lay_out(n, c.in_stride, random, !planes && random.chance(0.5));
    if (planes) {  // pixels of 4 bytes, of planes of floats
        c.in_stride[3] = 1;
        c.in_stride[4] = n.dims[3];
        c.in_stride[2] = n.dims[3] * n.dims[4];
        c.in_stride[1] = c.in_stride[2] * n.dims[2];
        c.in_stride[0] = c.in_stride[1] * n.dims[1];
    }
    c.input = arena.allocate(std::max(read, n.count()));
    int64_t written = lay_out(n, c.out_stride, random, random.chance(0.9));
    if (planes) {
        c.out_stride[4] = 1;
        c.out_stride[3] = random.pick({4, 4, 16});
        c.out_stride[2] = c.out_stride[3] * n.dims[3];
        c.out_stride[1] = c.out_stride[2] * n.dims[2];
        c.out_stride[0] = c.out_stride[1] * n.dims[1];
        written = int64_t{c.out_stride[0]} * n.dims[0];
    }
    c.output = tb::random_bytes(arena, random, written);
    c.out_format = tb::random_format(random);
    c.zero = tb::random_value(random, c.out_format);
    c.low = random.integer(fpga::least_of(c.out_format), c.zero);
    c.high = random.integer(c.zero, fpga::least_of(c.out_format) + 255);
    c.inverse_scale = random.pick({1.0f, 2.0f, random.real(1, 100)});
    c.scales = c.zeros = ABSENT;
    if (!planes) random_scales(c, arena, random, n, c.out_format);
    each(n, [&](const int32_t (&at)[5]) {
        const float ties = static_cast<float>(random.integer(-300, 300)) / (2 * c.inverse_scale);
        arena[static_cast<size_t>(address(c.input, c.in_stride, at))] =
            random.pick({ties, random.real(-5, 5), random.real(-1, 1), random.chance(0.02) ? NAN : 1e30f});
    });
#ifndef __SYNTHESIS__
    if (!report.bounded(c, fpga::quantize_bounds, arena, weights)) return;
#endif
    const auto expected = [&](const int32_t (&at)[5]) {
        const float x = arena[static_cast<size_t>(address(c.input, c.in_stride, at))];
        if (std::isnan(x)) return 0.0;
        const float product = x * (c.scales == ABSENT ? c.inverse_scale : 1.0f / scale_at(c, arena, at, 0));
        double r = std::nearbyint(static_cast<double>(product)) + zero_at(c, arena, at);
        r = r < c.low ? c.low : r > c.high ? c.high : r;
        return static_cast<double>(static_cast<int32_t>(r) & 0xff);
    };
    nest filled = n;
    const fpga::loop_nest walked = fpga::element_nest(c.dims, c.out_stride, c.in_stride, c.scale_stride);
    if (c.scales == ABSENT && c.zeros == ABSENT &&
        fpga::is_planar_quads(walked))  // the bytes behind the channels may become anything
        for (int d = 0; d < 5; d++)
            if (n.dims[d] > 1 && c.out_stride[d] == 1) filled.dims[d] = 4;
    const auto rows = [&](const auto& visit) {
        each(filled, [&](const int32_t (&at)[5]) { visit(static_cast<size_t>(address(c.output, c.out_stride, at))); });
    };
    tb::run_bytes_sliced(report, c, fpga::quantize, arena, weights, 1, rows, [&] {
        each(n, [&](const int32_t (&at)[5]) {
            const size_t to = static_cast<size_t>(address(c.output, c.out_stride, at));
            report.close(tb::bytes_in(arena)[to], expected(at), 0, "byte " + std::to_string(to));
        });
    });
}

void dequantize_case(tb::random_source& random) {
    fpga::dequantize_command c = {};
    tb::memory arena, weights;
    const nest n = random_nest(random);
    take(c, n);
    report.begin("dequantize");
    c.from_weights = random.chance(0.3);
    tb::memory& source = c.from_weights ? weights : arena;
    c.input = tb::random_bytes(source, random, lay_out(n, c.in_stride, random, random.chance(0.6)));
    c.output = tb::random_bytes(arena, random, 4 * lay_out(n, c.out_stride, random, random.chance(0.9))) / 4;
    c.in_format = tb::random_format(random);
    c.zero = tb::random_value(random, c.in_format);
    c.scale = random.real(0.001f, 1);
    random_scales(c, arena, random, n, c.in_format);
#ifndef __SYNTHESIS__
    if (!report.bounded(c, fpga::dequantize_bounds, arena, weights)) return;
#endif
    run(c, n, fpga::dequantize, arena, weights, 4, [&](const int32_t (&at)[5]) {
        const uint8_t x = tb::bytes_in(source)[address(c.input, c.in_stride, at)];
        return static_cast<double>(static_cast<float>(tb::value_of(x, c.in_format) - zero_at(c, arena, at)) *
                                   scale_at(c, arena, at, c.scale));
    });
}

void add_case(tb::random_source& random) {
    fpga::add_int8_command c = {};
    tb::memory arena, weights;
    const nest n = random_nest(random);
    take(c, n);
    report.begin("add_int8");
    c.a = tb::random_bytes(arena, random, lay_out(n, c.a_stride, random, random.chance(0.7)));
    c.b = tb::random_bytes(arena, random, lay_out(n, c.b_stride, random, random.chance(0.7)));
    if (random.chance(0.2)) c.b_stride[4] = 0;
    c.output = tb::random_bytes(arena, random, lay_out(n, c.out_stride, random, random.chance(0.9)));
    c.a_format = tb::random_format(random);
    c.b_format = tb::random_format(random);
    c.out_format = tb::random_format(random);
    c.a_zero = tb::random_value(random, c.a_format);
    c.b_zero = tb::random_value(random, c.b_format);
    c.out_zero = tb::random_value(random, c.out_format);
    c.out_low = random.integer(fpga::least_of(c.out_format), c.out_zero);
    c.out_high = random.integer(c.out_zero, fpga::least_of(c.out_format) + 255);
    c.a_factor = fpga::make_factor(random.pick({1.0f, 0.5f, random.real(0.01f, 15)}));
    c.b_factor = fpga::make_factor(random.pick({1.0f, 0.5f, random.real(0.01f, 15)}));
    c.table = random.chance(0.2) ? static_cast<uint32_t>(tb::random_bytes(weights, random, 256)) : ABSENT;
#ifndef __SYNTHESIS__
    if (!report.bounded(c, fpga::add_int8_bounds, arena, weights)) return;
#endif
    run(c, n, fpga::add_int8, arena, weights, 1, [&](const int32_t (&at)[5]) {
        fpga::requantize_tensor t = {};
        t.zero = c.out_zero;
        t.low = c.out_low;
        t.high = c.out_high;
        t.residual_factor = c.b_factor;
        t.residual_zero = c.b_zero;
        const int32_t a = tb::value_of(tb::bytes_in(arena)[address(c.a, c.a_stride, at)], c.a_format) - c.a_zero;
        const int32_t b = tb::value_of(tb::bytes_in(arena)[address(c.b, c.b_stride, at)], c.b_format);
        const fpga::requantize_channel channel = {0, static_cast<int32_t>(static_cast<uint32_t>(c.a_factor) << 5), 0};
        int32_t r = fpga::requantize(a, channel, b, t, static_cast<const int8_t*>(nullptr));
        if (c.table != ABSENT) r = tb::bytes_in(weights)[c.table + r - fpga::least_of(c.out_format)];
        return static_cast<double>(r & 0xff);
    });
}

void lookup_case(tb::random_source& random) {
    fpga::lookup_int8_command c = {};
    tb::memory arena, weights;
    const nest n = random_nest(random);
    take(c, n);
    report.begin("lookup_int8");
    c.input = tb::random_bytes(arena, random, lay_out(n, c.in_stride, random, random.chance(0.7)));
    c.output = tb::random_bytes(arena, random, lay_out(n, c.out_stride, random, random.chance(0.9)));
    c.in_format = tb::random_format(random);
    c.table = static_cast<uint32_t>(tb::random_bytes(weights, random, 256));
#ifndef __SYNTHESIS__
    if (!report.bounded(c, fpga::lookup_int8_bounds, arena, weights)) return;
#endif
    run(c, n, fpga::lookup_int8, arena, weights, 1, [&](const int32_t (&at)[5]) {
        const int32_t x = tb::value_of(tb::bytes_in(arena)[address(c.input, c.in_stride, at)], c.in_format);
        return static_cast<double>(tb::bytes_in(weights)[c.table + x - fpga::least_of(c.in_format)]);
    });
}

}  // namespace

int main(int argc, char** argv) {
    tb::random_source random(53);
    const int rounds = tb::share_of(400, argc, argv);
    for (int i = 0; i < rounds; i++) quantize_case(random);
    for (int i = 0; i < rounds; i++) dequantize_case(random);
    for (int i = 0; i < rounds; i++) add_case(random);
    for (int i = 0; i < rounds; i++) lookup_case(random);
    return report.finish();
}
