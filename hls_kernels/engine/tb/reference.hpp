// What a layer is to compute, in plain loops over numbers: nothing of it comes from the engine's own sources.
#pragma once
#include <cfenv>
#include <cmath>
#include <memory>

#include "../epilogue.hpp"
#include "functions.hpp"

namespace bench {

enum class kind { dense, depthwise, maximum };

struct layer {
    kind what = kind::dense;
    int groups = 1;
    int kernel[2] = {1, 1}, stride[2] = {1, 1}, padding[2] = {0, 0}, dilation[2] = {1, 1};
    // Epilogue: numbers of each output channel, and of the tensor. Of int8 as lib/requantize.hpp has them, of floats scales and
    // biases, and the residual is added as it is.
    std::vector<fpga::requantize_channel> channels;
    std::vector<float> scale, bias;
    int32_t residual_factor = 0, middle_factor = 0;
    int32_t zero = 0, low = -128, high = 127, residual_zero = 0, middle_zero = 0;
    float low_float = -std::numeric_limits<float>::infinity(), high_float = std::numeric_limits<float>::infinity();
    bool middle = false, middle_table = false;
    bool wide = false;          // of bfloat16: the result is float32
    std::vector<int8_t> table;  // 256 or none
#if ENGINE_FUNCTIONS
    std::shared_ptr<const bench::function> function;  // of bfloat16; or none
#endif
};

struct weights {
    int outputs = 0, inputs = 0, rows = 1, columns = 1;  // inputs: of a group
    std::vector<element_t> values;
    element_t get(int o, int ky, int kx, int i) const {
        return values[((static_cast<std::size_t>(o) * rows + ky) * columns + kx) * inputs + i];
    }
};

// To the nearest, ties to even. All terms have so few bits that they are exact in 64.
inline int32_t nearest(long double x) { return static_cast<int32_t>(nearbyintl(fminl(fmaxl(x, -1e6L), 1e6L))); }
inline int32_t between(int32_t x, int32_t low, int32_t high) { return x < low ? low : x > high ? high : x; }

// `sum`: of the products (activation - its zero point) * weight.
inline int8_t quantised(int64_t sum, int channel, int residual, bool has_residual, const layer& l) {
    const fpga::requantize_channel& c = l.channels[static_cast<std::size_t>(channel)];
    const uint32_t all = static_cast<uint32_t>(static_cast<uint64_t>(sum)) + static_cast<uint32_t>(c.offset);
    const long double unit = ldexpl(1, -22), scale = ldexpl(c.scale >> 5, -22 - 4 * (c.scale & 7));
    long double y = static_cast<int32_t>(all) * scale + c.bias * unit;
    if (l.middle) {
        int32_t q = between(nearest(y) + l.middle_zero, -128, 127);
        if (l.middle_table) q = l.table[static_cast<std::size_t>(q + 128)];
        y = (q - l.middle_zero) * (l.middle_factor * unit);
    }
    if (has_residual) y += (residual - l.residual_zero) * (l.residual_factor * unit);
    const int32_t q = between(nearest(y) + l.zero, l.low, l.high);
    return l.table.empty() || l.middle_table ? static_cast<int8_t>(q) : l.table[static_cast<std::size_t>(q + 128)];
}

// An output's sum and, for what floats may miss, that of absolute values and the number of products.
struct exact_sum {
    double sum = 0, size = 0;
    int products = 0;
    void add(double product) {
        sum += product;
        size += std::fabs(product);
        products++;
    }
};
inline exact_sum sum_at(const layer& l, const tensor& in, const weights& w, int image, int o, int y, int x) {
    exact_sum s;
    const int out_of_group = l.what == kind::dense ? w.outputs / l.groups : 1;
    const int inputs = l.what == kind::dense ? w.inputs : 1;
    const int first = l.what == kind::dense ? o / out_of_group * inputs : o;
    // Of nothing but padding an int8 maximum is the least value.
    if (l.what == kind::maximum) s.sum = engine::ELEMENT == engine::ELEMENT_INT8 ? -128 : -1e30;
    for (int ky = 0; ky < l.kernel[0]; ky++)
        for (int kx = 0; kx < l.kernel[1]; kx++) {
            const int iy = y * l.stride[0] + ky * l.dilation[0] - l.padding[0];
            const int ix = x * l.stride[1] + kx * l.dilation[1] - l.padding[1];
            if (iy < 0 || iy >= in.height || ix < 0 || ix >= in.width) continue;
            for (int i = 0; i < inputs; i++) {
                const double a = number_of(in.get(image, first + i, iy, ix)) - in.zero;
                if (l.what == kind::maximum) {
                    s.sum = std::fmax(s.sum, a + in.zero);
                    continue;
                }
                s.add(a * number_of(w.get(o, ky, kx, i)));
            }
        }
    if (l.what == kind::maximum) s.size = std::fabs(s.sum);
    return s;
}

// What an element is to be; a float may be that far from it.
struct wanted {
    double value = 0, tolerance = 0;
#if ENGINE_FUNCTIONS
    // Of bfloat16: is applied to the rounded value, which lies between these.
    std::shared_ptr<const bench::function> function;
    double from = 0, to = 0;
#endif

    bool is(element_t got) const {
#if ENGINE_FUNCTIONS
        if (function) {
            if (std::isnan(value)) return std::isnan(number_of(got));
            // Numbers in order: negative ones count down from 0, of which there are two.
            const auto place = [](element_t x) { return x & 0x8000 ? -1 - (x & 0x7fff) : static_cast<int>(x); };
            int first = place(element_from(from)), last = place(element_from(to));
            if (tolerance > 0 && first == 0) first = -1;  // either zero
            if (tolerance > 0 && last == -1) last = 0;
            for (int at = first; at <= last; at++)
                if (got == result_of(*function, static_cast<element_t>(at < 0 ? 0x8000 | (-1 - at) : at))) return true;
            return false;
        }
#endif
        return is_near(number_of(got));
    }
    bool is_near(double got) const { return std::fabs(got - value) <= tolerance; }
};
inline wanted finished(const exact_sum& s, int channel, double residual, bool has_residual, const layer& l) {
#if ENGINE_ELEMENT == 0
    return {static_cast<double>(
                quantised(static_cast<int64_t>(s.sum), channel, static_cast<int>(residual), has_residual, l)),
            0};
#else
    const double own = s.sum * l.scale[channel] + l.bias[channel], sum = has_residual ? own + residual : own;
    const auto limited = [&l](double x) {
        const double low = l.low_float, high = l.high_float, above = x < low ? low : x;
        return above > high ? high : above;
    };
    const double y = limited(sum);
    const double terms = std::fabs(l.scale[channel]) * s.size + std::fabs(l.bias[channel]) + std::fabs(residual);
    // A rounding of each product and addition, in whatever order, of the scale, the bias and the residual; most of many cancel
    // each other out. Then bfloat16 rounds to 8 bits.
    const double float32 = std::fmin((s.products + 4) * 0x1p-24, 4e-5) * terms;
    if (l.wide) {
        wanted w;
        w.value = y;
        w.tolerance = float32;
        return w;
    }
#if ENGINE_FUNCTIONS
    if (l.function && std::isfinite(sum))
        return {y, float32, l.function, limited(sum - float32), limited(sum + float32)};
    if (l.function) return {y, 0, l.function, y, y};
    return {y, float32 + (std::fabs(y) + float32) * 0x1p-8, nullptr};
#else
    return {y, float32 + (ENGINE_ELEMENT == 1 ? (std::fabs(y) + float32) * 0x1p-8 : 0)};
#endif
#endif
}

}  // namespace bench
