// The CPU schedule of the engine's commands: the same record, plan, layout and epilogue, and with int8 the same bits, but whole
// tiles out of the caches in place of streams. What the window's banks, masks and rotations are to the hardware is a padded
// copy of a few rows here.
#pragma once
#ifndef __VITIS_HLS__
#include <algorithm>
#include <cstdint>
#include <vector>

#include "dot.hpp"
#include "epilogue.hpp"
#include "layout.hpp"

namespace engine {

constexpr int CPU_PIXELS = 8;              // of a tile: that many sums of 16 channels stay in registers
constexpr int64_t CPU_WINDOW = 384 << 10;  // bytes of rows that are copied at a time

// Rows of the input with their padding, and the product's second operand for a block of output channels.
class cpu_mac {
public:
    cpu_mac(const mac_command& c, line_t* maps, const line_t* weights)
        : c_(c),
          p_(plan_of(c)),
          maps_(maps),
          weights_(weights),
          table_(table_of(c, weights)),
          pixels_(c.out_height * c.out_width),
          width_((c.out_width - 1) * c.stride[1] +
                 (folded(c) ? p_.columns * fold_of(c) : (c.kernel[1] - 1) * c.dilation[1] + 1)),
          pitch_(width_ * c.pixel_channels) {}

    // Part `slice` of `slices` of the work; any number of slices gives the same bits.
    void run(uint32_t slice = 0, uint32_t slices = 1) {
        const int64_t row_bytes = int64_t{pitch_} * c_.in_blocks * ELEMENT_BYTES;
        const int64_t fit = std::max<int64_t>(1, CPU_WINDOW / std::max<int64_t>(1, row_bytes * c_.stride[0]));
        const int32_t rows = static_cast<int32_t>(
            std::min<int64_t>(fit, std::max<int64_t>(1, divide_up(c_.out_height, static_cast<int32_t>(slices)))));
        const int64_t chunks = divide_up(c_.out_height, rows), units = int64_t{p_.heads} * c_.images * chunks;
        for (int64_t u = units * slice / slices; u < units * (slice + 1) / slices; u++) {
            const int32_t head = static_cast<int32_t>(u / chunks / c_.images);
            const int32_t image = static_cast<int32_t>(u / chunks % c_.images);
            run_rows(head, image, static_cast<int32_t>(u % chunks) * rows, rows);
        }
    }

private:
    void run_rows(int32_t head, int32_t image, int32_t y0, int32_t rows) {
        const int32_t h0 = head / c_.heads[1], h1 = head % c_.heads[1];
        rows = std::min(rows, c_.out_height - y0);
        const line_t* input = maps_ + c_.input + int64_t{h0} * c_.input_head[0] + int64_t{h1} * c_.input_head[1] +
                              int64_t{image} * c_.input_image;
        copy_rows(input, y0, rows);
        const line_t* operand = (second_operand_is_map(c_) ? maps_ : weights_) + c_.weight +
                                int64_t{h0} * c_.weight_head[0] + int64_t{h1} * c_.weight_head[1];
        const int64_t residual = c_.residual + int64_t{h0} * c_.residual_head[0] + int64_t{h1} * c_.residual_head[1] +
                                 int64_t{image} * c_.residual_image;
        const int64_t output = c_.output + int64_t{h0} * c_.output_head[0] + int64_t{h1} * c_.output_head[1] +
                               int64_t{image} * c_.output_image;
        const int64_t sums = c_.sums + (int64_t{head} * c_.images + image) * c_.out_blocks * pixels_;
        for (int32_t block = 0; block < c_.out_blocks; block++) {
            const int32_t first = block_of_input(block);
            prepare(operand, block);
            for (int32_t from = 0; from < rows * c_.out_width; from += CPU_PIXELS) {
                const int32_t n = std::min(CPU_PIXELS, rows * c_.out_width - from);
                cpu_sums_t v[CPU_PIXELS];
                sum_t row[CPU_PIXELS] = {};
                tile(from, n, first, v, row);
                for (int32_t k = 0; k < n; k++)
                    finish_pixel(v[k], row[k], block, y0 * c_.out_width + from + k, residual, sums, output);
            }
        }
    }

    // First block of the input that a block of the output takes.
    int32_t block_of_input(int32_t block) const {
        if (!p_.grouped) return 0;
        const int32_t begin = block / c_.tile_blocks * c_.tile_blocks * CHANNELS;
        return std::min(begin / c_.group_out * c_.group_in / CHANNELS, c_.in_blocks - c_.tile_depth);
    }

    // [block][row][column][channel], with padding; activations as dot_line wants them.
    void copy_rows(const line_t* input, int32_t y0, int32_t rows) {
        const int32_t channels = c_.pixel_channels, top = y0 * c_.stride[0] - c_.padding[0];
        height_ = (rows - 1) * c_.stride[0] + (c_.kernel[0] - 1) * c_.dilation[0] + 1;
        window_.resize(static_cast<std::size_t>(int64_t{c_.in_blocks} * height_ * pitch_ + CHANNELS));
        const cpu_act_t pad = cpu_act(pad_of(c_));
        for (int32_t block = 0; block < c_.in_blocks; block++)
            for (int32_t y = 0; y < height_; y++) {
                cpu_act_t* to = window_.data() + (int64_t{block} * height_ + y) * pitch_;
                std::fill(to, to + pitch_, pad);
                if (top + y < 0 || top + y >= c_.in_height) continue;
                const int32_t begin = std::min(c_.padding[1], width_);
                const int32_t end = std::max(begin, std::min(width_, c_.padding[1] + c_.in_width));
                const element_t* from = reinterpret_cast<const element_t*>(input + int64_t{block} * p_.in_plane) +
                                        int64_t{top + y} * p_.row_elements;
                for (int32_t i = 0; i < (end - begin) * channels; i++) to[begin * channels + i] = cpu_act(from[i]);
            }
    }

    // Weights of a block of output channels as packed lines, one step behind the other.
    void prepare(const line_t* operand, int32_t block) {
        constexpr int64_t LINES = IC * ELEMENT_BYTES / 4;
        if (!has_weights(c_)) return;
        if (c_.weight_kind == WEIGHT_DIAGONAL) {
            steps_ = operand + int64_t{block} * divide_up(p_.taps, BEAT);
            return;
        }
        if (second_operand_is_map(c_)) {
            repack(operand, block);
        } else {
            steps_ = operand +
                     (int64_t{block / c_.tile_blocks} * p_.steps * c_.tile_blocks + block % c_.tile_blocks) * LINES;
            step_lines_ = c_.tile_blocks * LINES;
        }
#if ENGINE_ELEMENT == 0
        // What the flipped sign bits of the activations add.
        for (int o = 0; o < CHANNELS; o++) begin_.v[o] = 0;
        for (int32_t s = 0; s < p_.steps; s++)
            for (int64_t l = 0; l < LINES; l++)
                for (int i = 0; i < LINE_BYTES; i++)
                    begin_.v[i / 4] -= 128 * static_cast<int8_t>(steps_[s * step_lines_ + l].byte[i]);
#else
        for (int o = 0; o < CHANNELS; o++) begin_.v[o] = 0;
#endif
        column(operand, block);
    }

    // 16 x 16 elements of a map at a time, as packed weights.
    void repack(const line_t* operand, int32_t block) {
        constexpr int INPUTS = 4 / ELEMENT_BYTES;
        const bool transposed = c_.weight_kind == WEIGHT_TRANSPOSED;
        repacked_.assign(static_cast<std::size_t>(p_.steps) * IC * ELEMENT_BYTES / 4, line_t());
        for (int32_t depth = 0; depth < c_.tile_depth; depth++)
            for (int o = 0; o < CHANNELS; o++)
                for (int k = 0; k < CHANNELS; k++) {
                    const int64_t plane = transposed ? block : depth;
                    const int64_t pixel = transposed ? depth * CHANNELS + k : block * CHANNELS + o;
                    const element_t x = reinterpret_cast<const element_t*>(
                        operand + plane * c_.weight_plane)[pixel * CHANNELS + (transposed ? o : k)];
                    const int64_t step = int64_t{depth} * PARTS + k / IC;
                    set_element(repacked_[static_cast<std::size_t>(step * (IC / INPUTS) + k % IC / INPUTS)],
                                o * INPUTS + k % INPUTS, x);
                }
        steps_ = repacked_.data();
        step_lines_ = IC / INPUTS;
    }

    // Column sums of a map as second operand.
    void column(const line_t*, int32_t) {
        for (int o = 0; o < CHANNELS; o++) column_[o] = 0;
#if ENGINE_ELEMENT == 0
        if (!second_operand_is_map(c_)) return;
        for (const line_t& line : repacked_)
            for (int i = 0; i < LINE_BYTES; i++) column_[i / 4] += static_cast<int8_t>(line.byte[i]);
#endif
    }

    void tile(int32_t from, int32_t n, int32_t first, cpu_sums_t v[CPU_PIXELS], sum_t row[CPU_PIXELS]) const {
        const cpu_act_t* at[CPU_PIXELS];
        for (int32_t k = 0; k < CPU_PIXELS; k++) {
            const int32_t pixel = from + std::min(k, n - 1);  // those beyond the end are computed and dropped
            at[k] = window_.data() + int64_t{first} * height_ * pitch_ +
                    int64_t{pixel / c_.out_width} * c_.stride[0] * pitch_ +
                    int64_t{pixel % c_.out_width} * c_.stride[1] * c_.pixel_channels;
        }
        if (c_.operation == OPERATION_MAXIMUM)
            maximum(at, v);
        else if (c_.weight_kind == WEIGHT_DIAGONAL)
            diagonal(at, v);
        else
            product(at, v);
        if (c_.weight_zero == 0) return;
        for (int32_t k = 0; k < n; k++)
            for (int32_t depth = 0; depth < c_.tile_depth; depth++)
                for (int i = 0; i < CHANNELS; i++)
                    row[k] = add_sums(row[k], original(at[k][int64_t{depth} * height_ * pitch_ + i]));
    }
    static sum_t original(cpu_act_t x) {
#if ENGINE_ELEMENT == 0
        return static_cast<int8_t>(x ^ 0x80);
#else
        return elements::widen(x);
#endif
    }
    int64_t tap_offset(int32_t tap) const {
        const int32_t ky = tap / p_.columns, kx = tap % p_.columns;
        return int64_t{ky} * c_.dilation[0] * pitch_ + kx * (folded(c_) ? CHANNELS : c_.dilation[1] * CHANNELS);
    }
    void product(const cpu_act_t* const at[CPU_PIXELS], cpu_sums_t out[CPU_PIXELS]) const {
        constexpr int INPUTS = 4 / ELEMENT_BYTES, LINES = IC / INPUTS;
        cpu_sums_t v[CPU_PIXELS];
        for (cpu_sums_t& x : v) x = begin_;
        const line_t* w = steps_;
        for (int32_t tap = 0; tap < p_.taps; tap++)
            for (int32_t depth = 0; depth < c_.tile_depth; depth++) {
                const int64_t offset = tap_offset(tap) + int64_t{depth} * height_ * pitch_;
                for (int part = 0; part < PARTS; part++, w += step_lines_)
                    for (int l = 0; l < LINES; l++)
                        for (int k = 0; k < CPU_PIXELS; k++)
                            dot_line(v[k], at[k] + offset + part * IC + l * INPUTS, w[l].byte);
            }
        std::copy(v, v + CPU_PIXELS, out);
    }
    void diagonal(const cpu_act_t* const at[CPU_PIXELS], cpu_sums_t v[CPU_PIXELS]) const {
        for (int k = 0; k < CPU_PIXELS; k++) v[k] = cpu_sums_t();
        for (int32_t tap = 0; tap < p_.taps; tap++) {
            const element_t* w = reinterpret_cast<const element_t*>(steps_) + tap * CHANNELS;
            const int64_t offset = tap_offset(tap);
            for (int k = 0; k < CPU_PIXELS; k++)
                for (int o = 0; o < CHANNELS; o++) v[k].v[o] += original(at[k][offset + o]) * elements::widen(w[o]);
        }
    }
    void maximum(const cpu_act_t* const at[CPU_PIXELS], cpu_sums_t v[CPU_PIXELS]) const {
        for (int32_t tap = 0; tap < p_.taps; tap++) {
            const int64_t offset = tap_offset(tap);
            for (int k = 0; k < CPU_PIXELS; k++)
                for (int o = 0; o < CHANNELS; o++) {
                    const sum_t x = original(at[k][offset + o]);
                    if (tap == 0 || !(x <= v[k].v[o])) v[k].v[o] = x;
                }
        }
    }

    void finish_pixel(const cpu_sums_t& v, sum_t row, int32_t block, int32_t pixel, int64_t residual, int64_t sums,
                      int64_t output) const {
        const line_t* params = weights_ + c_.params + int64_t{block} * 3;
        const int64_t partial = int64_t{block} * pixels_ + pixel, plane = int64_t{block} * p_.out_plane;
        const element_t* other = reinterpret_cast<const element_t*>(maps_ + residual + plane) +
                                 int64_t{pixel} * CHANNELS;
        element_t* to = reinterpret_cast<element_t*>(maps_ + output + plane) + int64_t{pixel} * CHANNELS;
        for (int o = 0; o < CHANNELS; o++) {
            sum_t sum = v.v[o];
#if ENGINE_ELEMENT == 0
            if (!has_sums(c_)) sum = add_sums(sum, sum_of_bits(bits32_of(params[0], o)));
            if (second_operand_is_map(c_)) sum = add_sums(sum, -c_.pad * column_[o] - c_.weight_zero * row);
#else
            (void)row;
#endif
            if (has_sums(c_)) sum = add_sums(sum, sum_of_bits(bits32_of(maps_[sums + partial], o)));
            if (is_raw(c_)) {
                set_bits32(maps_[output + partial], o, bits_of_sum(sum));
                continue;
            }
            const epilogue_result_t y = finish(sum, factor_of_bits(bits32_of(params[1], o)),
                                               factor_of_bits(bits32_of(params[2], o)),
                                               has_residual(c_) ? other[o] : element_t(0), c_, table_, table_);
            if (is_wide(c_))
                set_bits32(maps_[output + partial], o, y.bits);
            else
                to[o] = y.element;
        }
    }

    mac_command c_;
    plan_t p_;
    line_t* maps_;
    const line_t* weights_;
    plain_table table_;
    int32_t pixels_;
    int32_t width_, pitch_;  // of a row of the copy: pixels, elements
    int32_t height_ = 0;
    std::vector<cpu_act_t> window_;
    std::vector<line_t> repacked_;
    const line_t* steps_ = nullptr;
    int64_t step_lines_ = 0;
    cpu_sums_t begin_;
    sum_t column_[CHANNELS] = {};
};

}  // namespace engine
#endif
