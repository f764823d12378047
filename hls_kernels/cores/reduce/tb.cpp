// Random reductions over random layouts against a plain reference in double precision.
#include "core.hpp"

#include "tb/tb.hpp"

namespace {

using namespace fpga;

struct tensor_index {
    int i[6];
};

template <class F>
void each(const int32_t* size, int from, int to, tensor_index& at, F body) {
    if (from == to) {
        body();
        return;
    }
    for (at.i[from] = 0; at.i[from] < size[from]; at.i[from]++) each(size, from + 1, to, at, body);
}

int64_t address(uint32_t base, const int32_t* stride, const tensor_index& at, int dims = 6) {
    int64_t a = base;
    for (int d = 0; d < dims; d++) a += int64_t(at.i[d]) * stride[d];
    return a;
}

// Strides of a tensor whose dimensions lie in `order`, outermost first; the innermost may be padded or not contiguous.
int64_t lay_out(const int32_t* size, const int* order, int dims, int32_t* stride, int padding, int innermost) {
    int64_t next = innermost;
    for (int k = dims - 1; k >= 0; k--) {
        stride[order[k]] = static_cast<int32_t>(next);
        next *= size[order[k]];
        if (k == dims - 1) next += padding;
    }
    return next;
}

int32_t as_int(float x) {
    int32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    return bits;
}

// Large ones fill all three levels of partial sums (REDUCE_FOLD).
constexpr int64_t MOST_ELEMENTS = 50000, MOST_IF_LARGE = 1200000;

int64_t product(const int32_t (&size)[6]) {
    int64_t elements = 1;
    for (const int32_t n : size) elements *= n;
    return elements;
}

struct data_style {
    float offset, spread;
    double special;  // share of infinities, NaNs, equal values
};

void run(tb::report& report, tb::random_source& random, int round) {
    reduce_command c = {};
    c.kind = random.integer(REDUCE_SUM, REDUCE_DEVIATION);
    c.activation = random.chance(0.2) ? ACT_RELU : ACT_NONE;
    c.eps = 1e-5f;
    int32_t size[6];
    const bool large = random.chance(0.03);
    do {
        for (int d = 0; d < 6; d++) size[d] = random.pick({1, 1, 1, 2, 3, 5});
        size[5] = random.pick({1, 7, 16, 33, 64, 100, large ? 20000 : 257});
        size[2] = random.pick({1, 3, 16, 24, 64, large ? 2 : 130});
        if (large && random.chance(0.3)) size[3] = 30;
        if (c.kind == REDUCE_PROD) size[5] = random.integer(1, 20);
    } while (product(size) > (large ? MOST_IF_LARGE : MOST_ELEMENTS));
    std::copy(size, size + 3, c.kept);
    std::copy(size + 3, size + 6, c.reduced);
    // Lanes along the reduced dimensions, along the kept ones, or neither.
    const int orders[3][6] = {{0, 1, 2, 3, 4, 5}, {0, 3, 4, 5, 1, 2}, {0, 1, 3, 2, 4, 5}};
    const int which = random.integer(0, 2), innermost = random.chance(0.1) ? 3 : 1;
    const int padding = random.pick({0, 0, 5});
    const bool keeps = reduce_keeps_size(c.kind);
    const int64_t in_floats = lay_out(size, orders[which], 6, c.in_stride, padding, innermost);
    const int kept_order[3] = {0, 1, 2};
    const int64_t out_floats = keeps ? lay_out(size, orders[which], 6, c.out_stride, random.pick({0, 7}), innermost)
                                     : lay_out(size, kept_order, 3, c.out_stride, random.pick({0, 7}), 1);

    tb::memory arena, weights;
    data_style style = random.pick({data_style{0, 1, 0}, data_style{0, 1, 0}, data_style{1000, 1, 0},
                                    data_style{0, 3, 0.05}, data_style{0, 60, 0}});
    if ((c.kind == REDUCE_NORM || c.kind == REDUCE_DEVIATION) && random.chance(0.3))  // whose squares are no floats
        style = random.pick({data_style{0, 1e-30f, 0}, data_style{0, 1e30f, 0}, data_style{0, 1e38f, 0}});
    c.input = arena.allocate_random(in_floats, random, style.offset - style.spread, style.offset + style.spread);
    c.output = arena.allocate(out_floats);
    c.second = reduce_has_moments(c.kind) ? arena.allocate(out_floats) : ABSENT;
    const int nasty = random.integer(0, 4);
    for (int64_t i = 0; i < in_floats; i++) {
        float& x = arena[c.input + i];
        if (c.kind == REDUCE_PROD) x = 1 + (x - style.offset) / style.spread * 0.3f;
        if ((c.kind == REDUCE_ARGMAX || c.kind == REDUCE_ARGMIN) && random.chance(0.5)) x = std::round(x);  // ties
        if (random.chance(style.special)) x = nasty == 0 ? NAN : nasty == 1 ? INFINITY : -INFINITY;
        if (style.special > 0 && nasty == 4) x = -INFINITY;
    }
    c.scale = c.shift = ABSENT;
    if (reduce_has_affine(c.kind)) {
        int64_t floats = 1;
        for (int d = 5; d >= 0; d--) {  // the parameters vary along some dimensions
            if (random.chance(0.5)) continue;
            c.affine_stride[d] = static_cast<int32_t>(floats);
            floats *= size[d];
        }
        if (random.chance(0.7)) c.scale = weights.allocate_random(floats, random);
        if (random.chance(0.7)) c.shift = weights.allocate_random(floats, random);
    }

    std::string name = "kind " + std::to_string(c.kind) + " layout " + std::to_string(which) + " sizes";
    for (int d = 0; d < 6; d++) name += " " + std::to_string(size[d]);
    report.begin(name);
#ifndef __SYNTHESIS__
    report.bounded(c, fpga::reduce_bounds, arena, weights);
#endif
    arena.watch();
    tensor_index at;
    each(size, 0, keeps ? 6 : 3, at, [&] {
        arena.allow(address(c.output, c.out_stride, at, keeps ? 6 : 3), 1);
        if (c.second != ABSENT) arena.allow(address(c.second, c.out_stride, at, 3), 1);
    });
    const uint32_t slices = round % 2 ? 3 : 1;
    for (uint32_t slice = 0; slice < slices; slice++)
        report.check(reduce(c, nullptr, arena.region(), weights.region(), slice, slices) == STATUS_OK, "status");
    report.check(arena.stray() < 0, "stores outside its output at " + std::to_string(arena.stray()));

    const auto activate = [&](double x) { return c.activation == ACT_RELU && x < 0 ? 0 : x; };
    const int64_t n = int64_t(size[3]) * size[4] * size[5];
    each(size, 0, 3, at, [&] {
        double sum = 0, magnitude = 0, squares = 0, product = 1, high = -INFINITY, low = INFINITY;
        int64_t position = 0, arg_high = 0, arg_low = 0;
        const auto value = [&] { return double(arena[address(c.input, c.in_stride, at)]); };
        each(size, 3, 6, at, [&] {
            const double x = value();
            sum += x;
            magnitude += std::fabs(x);
            squares += x * x;
            product *= x;
            if (x > high || (std::isnan(x) && !std::isnan(high))) high = x, arg_high = position;
            if (x < low || (std::isnan(x) && !std::isnan(low))) low = x, arg_low = position;
            position++;
        });
        double deviation = 0, exponentials = 0;
        each(size, 3, 6, at, [&] {
            deviation += (value() - sum / n) * (value() - sum / n);
            exponentials += std::exp(value() - high);
        });
        if (!keeps) {
            const float got = arena[address(c.output, c.out_stride, at, 3)];
            const double terms = 6e-7 * magnitude + 1e-30;
            switch (c.kind) {
                case REDUCE_SUM: report.close(got, activate(sum), terms, "sum"); break;
                case REDUCE_MEAN: report.close(got, activate(sum / n), terms / n, "mean"); break;
                case REDUCE_MOMENTS:
                case REDUCE_DEVIATION: {
                    report.close(got, activate(sum / n), terms / n, "mean");
                    const double second = arena[address(c.second, c.out_stride, at, 3)];
                    const double noise = 1e-7 * std::fabs(sum / n);  // of the input's own rounding, if all are equal
                    const double variance = deviation / n;
                    if (c.kind == REDUCE_MOMENTS)
                        report.close(second, variance, 1e-6 * variance + noise * noise, "variance");
                    else
                        report.close(second, std::sqrt(variance), 1e-6 * std::sqrt(variance) + noise, "deviation");
                    break;
                }
                case REDUCE_MAX: report.close(got, activate(high), 0, "max"); break;
                case REDUCE_MIN: report.close(got, activate(low), 0, "min"); break;
                case REDUCE_PROD:
                    report.close(got, activate(product), 1e-7 * n * std::fabs(product) + 1e-30, "product");
                    break;
                case REDUCE_ARGMAX: report.check(as_int(got) == arg_high, "argmax"); break;
                default: report.check(as_int(got) == arg_low, "argmin"); break;
            }
            return;
        }
        each(size, 3, 6, at, [&] {
            const float got = arena[address(c.output, c.out_stride, at)];
            const int64_t affine = address(0, c.affine_stride, at);
            const double scale = c.scale == ABSENT ? 1 : weights[c.scale + affine];
            const double shift = c.shift == ABSENT || c.kind == REDUCE_RMS_NORM ? 0 : weights[c.shift + affine];
            const double x = value();
            double want = 0, tolerance = 0;
            if (c.kind == REDUCE_SOFTMAX) {
                want = std::exp(x - high) / exponentials;
                tolerance = (2e-6 + 1e-7 * std::min(high - x, 200.0)) * want + 1e-30;  // x - high is rounded
            } else if (c.kind == REDUCE_LOG_SOFTMAX) {
                want = x - high - std::log(exponentials);
                tolerance = 3e-7 * (std::fabs(x - high) + std::log(double(n)) + 1) + 2e-7 * std::fabs(high);
            } else {
                const bool rms = c.kind == REDUCE_RMS_NORM;
                const double factor = 1 / std::sqrt((rms ? squares : deviation) / n + double(c.eps));
                want = (rms ? x : x - sum / n) * factor * scale + shift;
                tolerance = 3e-6 * (std::fabs(want) + std::fabs(shift) + 1);
                // A row of (nearly) equal values: x - mean is rounding noise of the input's size.
                tolerance += rms ? 0 : 2e-8 * std::fabs(sum / n) * factor;
            }
            report.close(got, activate(want), tolerance, "element");
        });
    });
}

}  // namespace

int main(int argc, char** argv) {
    tb::report report("reduce");
    tb::random_source random(4);
    for (int round = 0; round < tb::share_of(700, argc, argv); round++) run(report, random, round);
    return report.finish();
}
