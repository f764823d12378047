// The CPU schedule of the vector side's commands: the same arithmetic and so the same bits, row after row.
#pragma once
#ifndef __VITIS_HLS__
#include <algorithm>
#include <cstring>

#include "../layout.hpp"
#if ENGINE_ELEMENT != 0
#include "floats/cpu.hpp"
#else
#include "arithmetic.hpp"
#include "cast_numbers.hpp"

namespace engine {

class cpu_vector {
public:
    cpu_vector(const vector_command& c, line_t* maps, const line_t* weights)
        : c_(c), p_(plan_of(c)), maps_(maps), params_(weights + c.params) {
        if (c.operation == VECTOR_SOFTMAX)
            for (int i = 0; i < 256; i++) exponentials_[i] = bits32_of(weights[c.params + i / 16], i % 16);
        if (c.operation == VECTOR_NORM) norm_ = weights + c.params;
        if (c.flags & VECTOR_TABLE) std::memcpy(table_, weights + c.params + p_.params_lines, sizeof table_);
    }

    // Part `slice` of `slices` of the work; any number of slices gives the same bits.
    void run(uint32_t slice = 0, uint32_t slices = 1) const {
        if (gathers(c_) || is_constant(c_)) {
            const int64_t heads = p_.heads;
            for (int64_t h = heads * slice / slices; h < heads * (slice + 1) / slices; h++)
                gathers(c_) ? gather(static_cast<int32_t>(h)) : constant(static_cast<int32_t>(h));
            return;
        }
#if ENGINE_HAS_CASTS
        if (casts(c_)) {
            const int64_t begin = int64_t{c_.pixels} * slice / slices, end = int64_t{c_.pixels} * (slice + 1) / slices;
            for (int32_t h = 0; h < p_.heads; h++) cast(h, begin, end);
            return;
        }
#endif
        const int64_t lines = int64_t{p_.heads} * p_.plane;  // no two slices write to the same one
        for (int64_t l = lines * slice / slices; l < lines * (slice + 1) / slices; l++) {
            const int32_t head = static_cast<int32_t>(l / p_.plane), line = static_cast<int32_t>(l % p_.plane);
            for (int32_t pixel = line * BEAT; pixel < smaller((line + 1) * BEAT, c_.pixels); pixel++)
                interleaves(c_) ? interleave(head, pixel) : row(head, pixel);
        }
    }

private:
    void row(int32_t head, int32_t pixel) const {
        const int32_t h0 = head / c_.heads[1], h1 = head % c_.heads[1];
        const int64_t plane = int64_t{p_.pitch} * BEAT;  // words
        const word_t* x = words(c_.input + h0 * c_.input_head[0] + h1 * c_.input_head[1]) + pixel;
        const word_t* other = has_other(c_) ? words(c_.other + h0 * c_.other_head[0] + h1 * c_.other_head[1]) : nullptr;
        const int64_t other_plane = is_shared(c_) ? BEAT : plane;
        if (other && !is_shared(c_)) other += pixel;
        word_t* to = words(c_.output + h0 * c_.output_head[0] + h1 * c_.output_head[1]) + pixel;
        const word_t none = {};
        row_sums_t sums = {};
        row_scale_t scale = {};
        if (reduces(c_)) {
            sums.greatest = NO_KEY;
            for (int32_t k = 0; k < c_.channels; k++) {
                const int32_t b = k / CHANNELS, lane = k % CHANNELS;
                sums = add_sums(
                    sums, sums_of(x[b * plane].lane[lane], other && other[b * other_plane].lane[lane] != 0, true));
            }
            if (is_uncentered(c_)) sums.sum = 0;
            scale.center = sums.sum;
            if (c_.operation == VECTOR_SOFTMAX) sums.squares = weight(x, plane, other, other_plane, sums);
            scale.scale = scale_of_row(sums, c_);
        }
        for (int32_t b = 0; b < p_.blocks; b++) {
            const word_t key = x[b * plane], r = other ? other[b * other_plane] : none;
            for (int k = 0; k < CHANNELS; k++) {
                const bool norm = c_.operation == VECTOR_NORM;
                const int32_t gamma = norm ? static_cast<int32_t>(bits32_of(norm_[2 * b], k)) : 0;
                const int32_t beta = norm ? static_cast<int32_t>(bits32_of(norm_[2 * b + 1], k)) : 0;
                const int32_t e = c_.operation == VECTOR_SOFTMAX ? exponential(sums, key.lane[k], r.lane[k]) : 0;
                const int32_t result = b * CHANNELS + k < c_.channels
                                           ? vector_result(key.lane[k], r.lane[k], e, scale, gamma, beta, c_)
                                           : vector_filling(c_);
                to[b * plane].lane[k] = c_.flags & VECTOR_TABLE ? table_[result + 128] : static_cast<int8_t>(result);
            }
        }
    }
    void interleave(int32_t head, int32_t pixel) const {
        const int32_t h0 = head / c_.heads[1], h1 = head % c_.heads[1];
        const taken_word from = place_of(c_, pixel);
        const uint32_t base = from.other ? c_.other + h0 * c_.other_head[0] + h1 * c_.other_head[1]
                                         : c_.input + h0 * c_.input_head[0] + h1 * c_.input_head[1];
        words(c_.output + h0 * c_.output_head[0] + h1 * c_.output_head[1])[pixel] = words(base)[from.word];
    }
    void constant(int32_t head) const {
        const int32_t h0 = head / c_.heads[1], h1 = head % c_.heads[1];
        const line_t* from = params_ + int64_t{head} * p_.plane;
        std::memcpy(words(c_.output + h0 * c_.output_head[0] + h1 * c_.output_head[1]), from,
                    static_cast<std::size_t>(c_.pixels) * sizeof(word_t));
    }
#if ENGINE_HAS_CASTS
    // Words of the output of a head.
    void cast(int32_t head, int64_t begin, int64_t end) const {
        const int32_t h0 = head / c_.heads[1], h1 = head % c_.heads[1];
        const word_t* from = words(c_.input + h0 * c_.input_head[0] + h1 * c_.input_head[1]);
        word_t* to = words(c_.output + h0 * c_.output_head[0] + h1 * c_.output_head[1]);
        const int64_t lanes = quantizes(c_) ? CHANNELS : CAST_LANES;
        for (int64_t i = begin * lanes; i < end * lanes; i++) {
            if (quantizes(c_)) {
                float x;
                std::memcpy(&x, reinterpret_cast<const float*>(from) + i, sizeof x);
                reinterpret_cast<int8_t*>(to)[i] = quantized(x, c_);
            } else {
                const float y = dequantized(reinterpret_cast<const int8_t*>(from)[i], c_);
                std::memcpy(reinterpret_cast<float*>(to) + i, &y, sizeof y);
            }
        }
    }
#endif
    // One block, run by run; a run beyond its source has filling, one beyond the block is cut.
    void gather(int32_t head) const {
        const int32_t h0 = head / c_.heads[1], h1 = head % c_.heads[1];
        const word_t* from = words(0) + c_.input + int64_t{h0} * c_.input_head[0] + int64_t{h1} * c_.input_head[1];
        word_t* const target = words(c_.output + h0 * c_.output_head[0] + h1 * c_.output_head[1]);
        word_t* to = target;
        int64_t left = c_.pixels;
        for (int32_t k = 0; k < c_.runs && left > 0; k++) {
            const run_t run = run_of(params_[k / LINE_RUNS], k % LINE_RUNS);
            const int64_t first = static_cast<int32_t>(run.first), all = static_cast<int32_t>(run.words);
            const int64_t count = std::max<int64_t>(0, std::min(left, all));
            if (run.source == GATHER_FILL || first + all > c_.taken[0])
                std::fill(reinterpret_cast<uint32_t*>(to), reinterpret_cast<uint32_t*>(to + count), run.filling);
            else
                std::copy(from + first, from + first + count, to);
            to += count;
            left -= count;
        }
        if (transposes(c_))
            for (int32_t word = 0; word < c_.pixels; word += CHANNELS) transpose(target + word);
    }
    static void transpose(word_t* tile) {
        for (int k = 0; k < CHANNELS; k++)
            for (int l = 0; l < k; l++) std::swap(tile[k].lane[l], tile[l].lane[k]);
    }
    int32_t exponential(const row_sums_t& sums, int8_t key, int8_t mask) const {
        return mask ? 0 : static_cast<int32_t>(exponentials_[distance(sums.greatest, key)]);
    }
    int64_t weight(const word_t* x, int64_t plane, const word_t* other, int64_t other_plane,
                   const row_sums_t& sums) const {
        int64_t sum = 0;
        for (int32_t k = 0; k < c_.channels; k++)
            sum += exponential(sums, x[k / CHANNELS * plane].lane[k % CHANNELS],
                               other ? other[k / CHANNELS * other_plane].lane[k % CHANNELS] : int8_t(0));
        return sum;
    }
    word_t* words(uint32_t line) const { return reinterpret_cast<word_t*>(maps_ + line); }

    vector_command c_;
    vector_plan_t p_;
    line_t* maps_;
    const line_t* params_;
    const line_t* norm_ = nullptr;
    uint32_t exponentials_[256] = {};
    int8_t table_[256] = {};
};

}  // namespace engine
#endif
#endif
