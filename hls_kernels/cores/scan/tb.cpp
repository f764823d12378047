// Random scans over random layouts against a plain reference in double precision.
#include "core.hpp"

#include "tb/tb.hpp"

namespace {

using namespace fpga;

int32_t as_int(float x) {
    int32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    return bits;
}

float as_float(int32_t bits) {
    float x;
    std::memcpy(&x, &bits, sizeof x);
    return x;
}

struct shape {
    int32_t size[5];  // the kept dimensions, and the scanned one
    int64_t rows() const { return int64_t(size[0]) * size[1] * size[2] * size[3]; }
};

shape random_shape(tb::random_source& random) {
    shape s;
    do {
        for (int d = 0; d < 3; d++) s.size[d] = random.pick({1, 1, 1, 2, 3});
        s.size[3] = random.pick({1, 1, 2, 5, 15, 16, 17, 40, 130, 300});
        s.size[4] = random.pick({1, 2, 7, 15, 16, 17, 33, 100, 127, 128, 129, 500, 2048, 2500, 5000});
    } while (s.rows() * s.size[4] > 60000);
    return s;
}

// Strides of dimensions that lie in `order`, outermost first, with `padding` floats behind each innermost row; the floats
// that they span.
int64_t lay_out(const shape& s, const int* order, int32_t* stride, int padding, int innermost) {
    int64_t next = innermost;
    for (int k = 4; k >= 0; k--) {
        stride[order[k]] = static_cast<int32_t>(next);
        next *= s.size[order[k]];
        if (k == 4) next += padding;
    }
    return next;
}

int64_t address(int64_t base, const shape& s, const int32_t* stride, int64_t row, int32_t element) {
    for (int d = 3; d >= 0; d--) {
        base += row % s.size[d] * stride[d];
        row /= s.size[d];
    }
    return base + int64_t(element) * stride[4];
}

// One more element in a scan in double, as in eager mode. `terms` is the size that rounding errors are compared with.
struct reference {
    int32_t kind;
    double result, terms = 0;
    uint32_t count = 0;

    explicit reference(int32_t k) : kind(k), result(k == SCAN_PRODUCT ? 1 : k == SCAN_SUM ? 0 : -INFINITY) {}

    void take(float element) {
        const double x = element;
        if (kind == SCAN_INT_SUM) {
            count += static_cast<uint32_t>(as_int(element));
        } else if (kind == SCAN_SUM) {
            result += x;
            terms += std::fabs(x);
        } else if (kind == SCAN_PRODUCT) {
            result *= x;
        } else {
            terms = std::fmax(terms, std::isfinite(x) ? std::fabs(x) : 0);
            const double low = std::fmin(x, result), high = std::fmax(x, result);
            if (std::isnan(x) || std::isnan(result))
                result = NAN;
            else if (low != high || std::isfinite(low))
                result = high + std::log1p(std::exp(low - high));
        }
    }
    // Of a float nearest to the result, and for sums the noise of doubles that are added in another order.
    double tolerance() const {
        const double rounding = 6e-8 * std::fabs(result) + 1e-45;
        if (kind == SCAN_SUM) return rounding + 1e-15 * terms;
        return kind == SCAN_LOG_SUM_EXP ? 2e-7 * std::fabs(result) + 1.2e-7 * terms + 6e-7 : rounding;
    }
};

float random_element(tb::random_source& random, int32_t kind, float spread, double special) {
    if (kind == SCAN_INT_SUM)
        return as_float(random.chance(0.1) ? random.integer(INT32_MIN, INT32_MAX) : random.integer(-100, 100));
    if (random.chance(special)) return random.pick({INFINITY, -INFINITY, NAN, 0.0f, -0.0f, 3e38f, -3e38f, 1e-40f});
    return kind == SCAN_PRODUCT ? random.pick({-1.0f, 1.0f}) * random.real(0.9f, 1.1f) : random.real(-spread, spread);
}

void run(tb::report& report, tb::random_source& random) {
    scan_command c = {};
    c.kind = random.integer(SCAN_SUM, SCAN_INT_SUM);
    c.backward = random.integer(0, 1);
    const shape s = random_shape(random);
    std::copy(s.size, s.size + 4, c.kept);
    c.length = s.size[4];
    // Along the lanes' dimension, or across it; alone, elements may be any distance apart.
    const int orders[3][5] = {{0, 1, 2, 3, 4}, {0, 4, 1, 2, 3}, {2, 0, 4, 1, 3}};
    const int which = random.integer(0, 2), padding = random.pick({0, 0, 5});
    const int apart = s.size[3] == 1 && random.chance(0.3) ? 3 : 1;
    const int64_t in_floats = lay_out(s, orders[which], c.in_stride, padding, apart);
    const int64_t out_floats = lay_out(s, orders[which], c.out_stride, random.pick({0, padding, 3}), 1);

    tb::memory arena, weights;
    c.input = arena.allocate(in_floats);
    const float spread = random.pick({1.0f, 1.0f, 30.0f, 1e4f});
    const double special = random.pick({0.0, 0.0, 0.0, 0.001, 0.05});
    const bool rising = random.chance(0.2);
    for (int64_t row = 0; row < s.rows(); row++)
        for (int32_t i = 0; i < c.length; i++) {
            float x = random_element(random, c.kind, spread, special);
            if (rising && c.kind == SCAN_LOG_SUM_EXP) x += 0.01f * spread * (c.backward ? c.length - i : i);
            arena[address(c.input, s, c.in_stride, row, i)] = x;
        }
    c.output = arena.allocate(out_floats);

    std::string name = "kind " + std::to_string(c.kind) + (c.backward ? " backward" : "") + ", order " +
                       std::to_string(which) + ", sizes";
    for (int d = 0; d < 5; d++) name += " " + std::to_string(s.size[d]);
    report.begin(name);
#ifndef __SYNTHESIS__
    report.bounded(c, fpga::scan_bounds, arena, weights);
#endif
    const auto each_element = [&](auto visit) {
        for (int64_t row = 0; row < s.rows(); row++)
            for (int32_t i = 0; i < c.length; i++) visit(address(c.output, s, c.out_stride, row, i));
    };
    tb::run_sliced(report, c, scan, arena, weights, 1, each_element, [&](const std::string& where) {
        for (int64_t row = 0; row < s.rows(); row++) {
            reference so_far(c.kind);
            for (int32_t n = 0; n < c.length; n++) {
                const int32_t i = c.backward ? c.length - 1 - n : n;
                so_far.take(arena[address(c.input, s, c.in_stride, row, i)]);
                const float got = arena[address(c.output, s, c.out_stride, row, i)];
                if (c.kind == SCAN_INT_SUM) {
                    report.check(as_int(got) == static_cast<int32_t>(so_far.count), where + "count");
                } else {
                    const double wanted = std::fabs(so_far.result) > 3.4028236e38
                                              ? std::copysign(INFINITY, so_far.result)
                                              : so_far.result;
                    report.close(got, wanted, so_far.tolerance(), where + "element");
                }
            }
        }
    });
}

}  // namespace

int main(int argc, char** argv) {
    tb::report report("scan");
    tb::random_source random(6);
    for (int round = 0; round < tb::share_of(400, argc, argv); round++) run(report, random);
    return report.finish();
}
