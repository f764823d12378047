// The CPU schedule of the vector side's commands on floats: the same arithmetic in the same order and so the same bits, row after
// row.
#pragma once
#ifndef __VITIS_HLS__
#include <vector>

#include "arithmetic.hpp"

namespace engine {

class cpu_vector {
public:
    cpu_vector(const vector_command& c, line_t* maps, const line_t* weights)
        : c_(c), p_(plan_of(c)), maps_(maps), params_(weights + c.params) {}

    // Part `slice` of `slices` of the work; any number of slices gives the same bits.
    void run(uint32_t slice = 0, uint32_t slices = 1) const {
        const int64_t lines = int64_t{p_.heads} * p_.plane;  // no two slices write to the same one
        std::vector<float> values(static_cast<std::size_t>(p_.blocks) * CHANNELS);
        for (int64_t l = lines * slice / slices; l < lines * (slice + 1) / slices; l++) {
            const int32_t head = static_cast<int32_t>(l / p_.plane), line = static_cast<int32_t>(l % p_.plane);
            for (int32_t pixel = line * BEAT; pixel < smaller((line + 1) * BEAT, c_.pixels); pixel++)
                row(head, pixel, values.data());
        }
    }

private:
    // A row of the input.
    struct row_t {
        const word_t* words;
        int64_t plane;
        int32_t pixel;
        const vector_command& c;
        float at(int32_t block, int lane) const {
            const int64_t word = block * plane + pixel;
            const float x = is_wide(c) ? float_of_bits(bits32_of(reinterpret_cast<const line_t*>(words)[word], lane))
                                       : elements::widen(words[word].lane[lane]);
            return is_causal(c) && block * CHANNELS + lane > pixel ? masked(x) : x;
        }
    };
    void row(int32_t head, int32_t pixel, float* values) const {
        const int32_t h0 = head / c_.heads[1], h1 = head % c_.heads[1];
        const int64_t plane = int64_t{p_.pitch} * BEAT;  // words
        const row_t x = {words(c_.input + h0 * c_.input_head[0] + h1 * c_.input_head[1]), plane, pixel, c_};
        word_t* to = words(c_.output + h0 * c_.output_head[0] + h1 * c_.output_head[1]) + pixel;
        const float origin = x.at(0, 0);
        const float center = centered(center_of(collected(x, origin).parts, c_), origin, c_);
        const float scale = scale_of_row(weighed(x, center, values), c_);
        for (int32_t k = 0; k < p_.blocks * CHANNELS; k++) {
            const int32_t b = k / CHANNELS, lane = k % CHANNELS;
            to[b * plane].lane[lane] = k < c_.channels ? vector_result(values[k], scale, number(2 * b, lane),
                                                                       number(2 * b + 1, lane), c_)
                                                       : element_t(0);
        }
    }
    struct parts_t {
        row_part_t parts[VECTOR_PARTS];
    };
    parts_t collected(const row_t& x, float origin) const {
        parts_t of_row = {};
        for (int32_t b = 0; b < p_.blocks; b++)
            for (int q = 0; q < VECTOR_PARTS; q++) {
                float terms[VECTOR_LANES];
                row_part_t& part = of_row.parts[q];
                if (b == 0) part.greatest = LEAST_KEY;
                for (int l = 0; l < VECTOR_LANES; l++) {
                    const bool exists = b * CHANNELS + q * VECTOR_LANES + l < c_.channels;
                    const float e = x.at(b, q * VECTOR_LANES + l);
                    terms[l] = exists ? term_of(e, origin) : 0.0f;
                    part.greatest = larger(part.greatest, exists ? key_of(e) : LEAST_KEY);
                }
                const float sum = sum_of<VECTOR_LANES>(terms);
                part.sum = b == 0 ? sum : part.sum + sum;
            }
        return of_row;
    }
    float weighed(const row_t& x, float center, float* values) const {
        float sums[VECTOR_PARTS];
        const bool softmax = c_.operation == VECTOR_SOFTMAX;
        const auto exponential_of = [&](int i) { return softmax ? bits32_of(params_[i / 16], i % 16) : 0; };
        for (int32_t b = 0; b < p_.blocks; b++)
            for (int q = 0; q < VECTOR_PARTS; q++) {
                float weights[VECTOR_LANES];
                for (int l = 0; l < VECTOR_LANES; l++) {
                    const int32_t lane = q * VECTOR_LANES + l, k = b * CHANNELS + lane;
                    const weighted_element_t found = k < c_.channels
                                                         ? weigh_element(x.at(b, lane), center, c_, exponential_of)
                                                         : weighted_element_t{0.0f, 0.0f};
                    weights[l] = found.weight;
                    values[k] = found.value;
                }
                const float sum = sum_of<VECTOR_LANES>(weights);
                sums[q] = b == 0 ? sum : sums[q] + sum;
            }
        return sum_of<VECTOR_PARTS>(sums);
    }
    // Of gamma and beta; of a softmax 0, which nobody looks at.
    float number(int32_t line, int lane) const {
        return c_.operation == VECTOR_NORM ? float_of_bits(bits32_of(params_[line], lane)) : 0.0f;
    }
    word_t* words(uint32_t line) const { return reinterpret_cast<word_t*>(maps_ + line); }

    vector_command c_;
    vector_plan_t p_;
    line_t* maps_;
    const line_t* params_;
};

}  // namespace engine
#endif
