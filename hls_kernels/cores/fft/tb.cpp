// Random transforms over random layouts against sums in long double.
#include "core.hpp"

#include <complex>

#include "tb/tb.hpp"

namespace {

using namespace fpga;
typedef std::complex<double> number;

const double TURN = 2 * std::acos(-1.0);

number root(int64_t numerator, int64_t denominator) {
    return std::polar(1.0, -TURN * double(numerator % denominator) / double(denominator));
}

void push(std::vector<float>& table, number x) {
    table.push_back(static_cast<float>(x.real()));
    table.push_back(static_cast<float>(x.imag()));
}

// Passes of a length, and their factors.
std::vector<float> plan(fft_command& c, int32_t points) {
    std::vector<float> table;
    c.points = points;
    c.passes = 0;
    int32_t left = points;
    for (int32_t radix : {4, 2, 3, 5, 7, 11, 13})
        for (; left % radix == 0; left /= radix) {
            c.radix[c.passes++] = radix;
            for (int32_t j = 0; radix > 5 && j < radix; j++) push(table, root(j, radix));
            for (int32_t p = 0; p < left / radix; p++)
                for (int32_t j = 1; j < radix; j++) push(table, root(int64_t(p) * j, left));
        }
    return table;
}

uint32_t put(tb::memory& memory, const std::vector<float>& table) {
    const uint32_t at = memory.allocate(table.empty() ? 2 : table.size());
    for (size_t i = 0; i < table.size(); i++) memory[at + i] = table[i];
    return at;
}

struct side {
    bool real, rows;
    int32_t count, step;  // elements, and how they are counted
};

// Strides of [kept 0..3, points] with the points or kept[3] contiguous; the floats that they span.
int64_t lay_out(const int32_t (&kept)[4], int32_t points, const side& s, int32_t padding, int32_t (&stride)[5]) {
    const int32_t unit = s.real ? 1 : 2;
    int64_t next = unit;
    const int order[5] = {s.rows ? 4 : 3, s.rows ? 3 : 4, 2, 1, 0};
    for (int i = 0; i < 5; i++) {
        const int d = order[i];
        stride[d] = static_cast<int32_t>(next);
        next *= d == 4 ? points : kept[d];
        if (i == 0 && s.step == 1) next += padding * unit;
    }
    return next;
}

bool exists(const side& s, int32_t k, int32_t row, int32_t points) {
    return k < points && int64_t(k) * s.step + (s.step > 1 ? row : 0) < s.count;
}

int64_t address(const fft_command& c, bool in, int64_t row, int32_t k) {
    const int32_t (&stride)[5] = in ? c.in_stride : c.out_stride;
    int64_t at = in ? c.input : c.output;
    for (int d = 3; d >= 0; d--) {
        at += row % c.kept[d] * stride[d];
        row /= c.kept[d];
    }
    return at + int64_t(k) * stride[4];
}

std::vector<number> random_factors(const side& s, int32_t points, int32_t columns, int32_t (&stride)[2],
                                   tb::random_source& random) {
    stride[0] = s.rows || points == 1 || random.chance(0.5) ? 1 : columns;
    stride[1] = stride[0] == 1 ? 0 : 1;
    if (s.step > 1) stride[0] = columns, stride[1] = 1;
    std::vector<number> factors(int64_t(points) * stride[0] + columns);
    for (number& f : factors) f = number(random.real(-1, 1), random.real(-1, 1));
    for (number& f : factors) f = number(float(f.real()), float(f.imag()));
    return factors;
}

uint32_t put(tb::memory& memory, const std::vector<number>& factors) {
    std::vector<float> table;
    for (number f : factors) push(table, f);
    return put(memory, table);
}

void run(tb::report& report, tb::random_source& random) {
    fft_command c = {};
    const bool spread = random.chance(0.25);
    const int32_t length = random.pick({1,  2,  3,  4,   5,   7,   8,   11,  13,  12,  15,  16,  17 - 1, 20,   36,
                                        49, 64, 77, 100, 120, 128, 169, 210, 256, 300, 343, 512, 600,    1000, 1024});
    const int32_t points = spread && length > 256 ? 64 : length, whole = spread ? points * VEC : points;
    const std::vector<float> table = plan(c, points);
    do {
        for (int d = 0; d < 3; d++) c.kept[d] = random.pick({1, 1, 1, 2, 3});
        c.kept[3] = random.pick({1, 1, 2, 5, 16, 17, 33});
    } while (double(c.kept[0]) * c.kept[1] * c.kept[2] * c.kept[3] * whole * whole > 4e6 &&
             !(c.kept[0] == 1 && c.kept[3] == 1));
    const int32_t columns = c.kept[3];
    const bool split = !spread && columns > 1 && points > 1 && random.chance(0.2);
    side in, out;
    for (side* s : {&in, &out}) {
        s->real = random.chance(0.3);
        s->rows = spread || (!split && random.chance(0.5));
        s->step = split ? columns : 1;
        s->count = random.integer(1, split ? whole * columns : whole);
        if (random.chance(0.5)) s->count = split ? whole * columns : whole;
    }
    c.in_real = in.real, c.out_real = out.real;
    c.in_count = in.count, c.out_count = out.count, c.in_step = in.step, c.out_step = out.step;
    c.inverse = random.integer(0, 1);
    c.scale = random.pick({1.0f, 0.125f, 0.3f});
    tb::memory arena, weights;
    c.twiddles = put(weights, table);
    c.spread = c.before = c.behind = ABSENT;
    if (spread) {
        std::vector<float> lanes;
        for (int32_t k = 0; k < points; k++) {
            for (int l = 0; l < VEC; l++) lanes.push_back(float(root(int64_t(l) * k, whole).real()));
            for (int l = 0; l < VEC; l++) lanes.push_back(float(root(int64_t(l) * k, whole).imag()));
        }
        c.spread = put(weights, lanes);
    }
    std::vector<number> before, behind;
    if (random.chance(0.3))
        c.before = put(weights, before = random_factors(in, whole, columns, c.before_stride, random));
    if (random.chance(0.3))
        c.behind = put(weights, behind = random_factors(out, whole, columns, c.behind_stride, random));
    c.input = arena.allocate_random(lay_out(c.kept, whole, in, random.pick({0, 0, 3}), c.in_stride), random);
    c.output = arena.allocate(lay_out(c.kept, whole, out, random.pick({0, 0, 5}), c.out_stride));

    std::string name = spread ? "spread" : split ? "split" : "whole";
    name += std::string(in.rows ? ", rows" : ", columns") + (out.rows ? " to rows" : " to columns");
    name += (in.real ? ", real" : ", complex") + std::string(out.real ? " to real" : " to complex");
    name += (c.before != ABSENT ? ", before" : "") + std::string(c.behind != ABSENT ? ", behind" : "");
    name += ", points " + std::to_string(whole) + ", kept";
    for (int32_t n : c.kept) name += " " + std::to_string(n);
    report.begin(name);
#ifndef __SYNTHESIS__
    report.bounded(c, fpga::fft_bounds, arena, weights);
#endif
    const int64_t rows = fft_rows_of(c);
    std::vector<number> roots(whole);
    for (int32_t n = 0; n < whole; n++) roots[n] = c.inverse ? std::conj(root(n, whole)) : root(n, whole);
    // Of the results of a long transform some are looked at.
    const int32_t stride = whole > 400 ? 7 : 1;
    std::vector<number> wanted(rows * whole);
    std::vector<double> norms(rows);
    for (int64_t row = 0; row < rows; row++) {
        const int32_t r = static_cast<int32_t>(row % columns);
        std::vector<number> x(whole, 0);
        for (int32_t k = 0; k < whole; k++) {
            if (!exists(in, k, r, whole)) continue;
            const int64_t at = address(c, true, row, k);
            x[k] = number(arena[at], in.real ? 0 : arena[at + 1]);
            if (c.before != ABSENT) x[k] *= before[int64_t(k) * c.before_stride[0] + int64_t(r) * c.before_stride[1]];
            norms[row] += std::norm(x[k]);
        }
        for (int32_t k = 0; k < whole; k += stride) {
            if (!exists(out, k, r, whole)) continue;
            number sum = 0;
            for (int32_t j = 0; j < whole; j++) sum += x[j] * roots[int64_t(j) * k % whole];
            if (c.behind != ABSENT) sum *= behind[int64_t(k) * c.behind_stride[0] + int64_t(r) * c.behind_stride[1]];
            wanted[row * whole + k] = sum * double(c.scale);
        }
    }
    const int unit = out.real ? 1 : 2;
    const auto each_element = [&](auto visit) {
        for (int64_t row = 0; row < rows; row++)
            for (int32_t k = 0; k < whole; k++)
                if (exists(out, k, static_cast<int32_t>(row % columns), whole)) visit(address(c, false, row, k));
    };
    tb::run_sliced(report, c, fft, arena, weights, unit, each_element, [&](const std::string& where) {
        for (int64_t row = 0; row < rows; row++) {
            // Rounding is random: the root of the sum of squares, a few units in the last place.
            const double tolerance = 6e-8 * (3 + std::log2(whole)) * std::sqrt(norms[row]) * c.scale * 1.5 + 1e-12;
            for (int32_t k = 0; k < whole; k += stride) {
                if (!exists(out, k, static_cast<int32_t>(row % columns), whole)) continue;
                const int64_t at = address(c, false, row, k);
                const number w = wanted[row * whole + k];
                report.close(arena[at], w.real(), tolerance, where + "real part");
                if (!out.real) report.close(arena[at + 1], w.imag(), tolerance, where + "imaginary part");
            }
        }
    });
}

}  // namespace

int main(int argc, char** argv) {
    tb::report report("fft");
    tb::random_source random(15);
    for (int round = 0; round < tb::share_of(400, argc, argv); round++) run(report, random);
    return report.finish();
}
