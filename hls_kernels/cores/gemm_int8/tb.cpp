// Test bench of the core gemm_int8: random products against plain loops over integers and the scalar arithmetic of
// requantize.hpp, which they must meet to the bit.
#include "core.hpp"

#include "tb/int8.hpp"

namespace {

using fpga::ABSENT;
using fpga::VEC;

tb::report report("gemm_int8");

struct shape {
    int batch[2], rows, columns, depth, vectors;
};

size_t row_at(int64_t base, const int32_t stride[3], int i, int j, int m) {
    return static_cast<size_t>(base) + static_cast<size_t>(i) * stride[0] + static_cast<size_t>(j) * stride[1] +
           static_cast<size_t>(m) * stride[2];
}

// Strides of rows of `columns` bytes, with gaps or (dense) without; the batch's dimensions may be swapped.
int64_t lay_out(tb::random_source& random, const shape& s, int rows, int columns, int32_t stride[3], bool dense) {
    stride[2] = columns + (dense ? 0 : random.pick({0, 0, 16, 5}));
    const bool swapped = random.chance(0.3);
    stride[swapped ? 0 : 1] = stride[2] * rows;
    stride[swapped ? 1 : 0] = stride[2] * rows * s.batch[swapped ? 0 : 1];
    return static_cast<int64_t>(stride[2]) * rows * s.batch[0] * s.batch[1];
}

void run_case(const shape& s, bool packed, tb::random_source& random) {
    fpga::gemm_int8_command c = {};
    c.batch[0] = s.batch[0];
    c.batch[1] = s.batch[1];
    c.rows = s.rows;
    c.columns = s.columns;
    c.depth = s.depth;
    c.vectors = fpga::minimum(s.vectors, fpga::tile::MAX_VECTORS);
    c.b_packed = packed;
    char text[128];
    std::snprintf(text, sizeof text, "%d x %d x %d x %d x %d, vectors %d, packed %d", s.batch[0], s.batch[1], s.rows,
                  s.depth, s.columns, c.vectors, packed);
    report.begin(text);
    tb::memory arena, weights;
    const int width = c.vectors * VEC, panels = fpga::ceil_div(c.columns, width), quads = fpga::ceil_div(c.depth, 4);
    const int stored = fpga::round_up(c.columns, VEC);
    c.a_format = tb::random_format(random);
    c.a = tb::random_bytes(arena, random, lay_out(random, s, c.rows, c.depth, c.a_stride, random.chance(0.5)));
    const auto packed_at = [&](int n, int k) {
        return c.b + ((static_cast<int64_t>(n / width) * quads + k / 4) * width + n % width) * 4 + k % 4;
    };
    if (packed) {
        const int64_t bytes = static_cast<int64_t>(panels) * quads * width * 4;
        c.b = tb::aligned_bytes(weights, bytes);
        std::memset(tb::bytes_in(weights) + c.b, 0, static_cast<size_t>(bytes));
        for (int n = 0; n < c.columns; n++)
            for (int k = 0; k < c.depth; k++)
                tb::bytes_in(weights)[packed_at(n, k)] = static_cast<uint8_t>(random.integer(-128, 127));
    } else {
        const bool transposed = random.chance(0.5);  // k is contiguous
        const int inner = transposed ? c.depth : c.columns, outer = transposed ? c.columns : c.depth;
        int32_t stride[3];
        const int64_t bytes = lay_out(random, s, outer, inner, stride, random.chance(0.5));
        c.b = tb::random_bytes(arena, random, bytes);
        const bool one = random.chance(0.2);
        c.b_stride[0] = one ? 0 : stride[0];
        c.b_stride[1] = one ? 0 : stride[1];
        c.b_stride[2] = transposed ? 1 : stride[2];
        c.b_stride[3] = transposed ? stride[2] : 1;
        c.b_format = tb::random_format(random);
        c.b_zero = random.chance(0.3) ? 0 : tb::random_value(random, c.b_format);
        c.a_zero = tb::random_value(random, c.a_format);
    }
    c.residual = ABSENT;
    c.residual_format = tb::random_format(random);
    c.out_format = random.chance(0.15) ? random.pick({fpga::FORMAT_F32, fpga::FORMAT_F32, fpga::FORMAT_I32})
                                       : tb::random_format(random);
    const int32_t bytes = fpga::out_bytes(c.out_format);
    c.output = tb::random_bytes(arena, random, bytes * lay_out(random, s, c.rows, stored, c.out_stride, false)) / bytes;
    if (bytes == 1 && random.chance(0.3))
        c.residual = tb::random_bytes(arena, random, lay_out(random, s, c.rows, stored, c.residual_stride, false));
    tb::random_epilogue(c, weights, random, panels, width, 256.0 * (packed ? 128 : 256) * c.depth);
    c.row_scale = c.row_zero = ABSENT;
    if ((bytes == 4 || c.activation != fpga::ACT_NONE) && random.chance(0.5)) {
        const int outer = s.batch[0] * s.batch[1], step = random.pick({0, 1, 3});
        c.row_stride[2] = step;
        c.row_stride[1] = step * c.rows;
        c.row_stride[0] = step * c.rows * s.batch[1];
        const size_t count = static_cast<size_t>(outer) * c.rows * 3;
        c.row_scale = static_cast<fpga::place_t>(arena.allocate(count));
        for (size_t i = 0; i < count; i++) arena[static_cast<size_t>(c.row_scale) + i] = random.real(0.5f, 2.0f);
        if (random.chance(0.5)) {
            c.row_zero = static_cast<fpga::place_t>(arena.allocate(count));
            for (size_t i = 0; i < count; i++)
                tb::set_word(arena, static_cast<size_t>(c.row_zero) + i, random.integer(-3, 3));
        }
    }
#ifndef __SYNTHESIS__
    if (!report.bounded(c, fpga::gemm_int8_bounds, arena, weights)) return;
#endif
    const auto each = [&](const auto& visit) {
        for (int i = 0; i < c.batch[0]; i++)
            for (int j = 0; j < c.batch[1]; j++)
                for (int m = 0; m < c.rows; m++) visit(i, j, m);
    };
    const auto rows = [&](const auto& visit) {
        each([&](int i, int j, int m) { visit(bytes * row_at(c.output, c.out_stride, i, j, m)); });
    };
    tb::run_bytes_sliced(report, c, fpga::gemm_int8, arena, weights, bytes * stored, rows, [&] {
        each([&](int i, int j, int m) {
            for (int n = 0; n < c.columns; n++) {
                int32_t sum = 0;
                for (int k = 0; k < c.depth; k++) {
                    int32_t a = tb::value_of(tb::bytes_in(arena)[row_at(c.a, c.a_stride, i, j, m) + k], c.a_format), b;
                    if (packed) {
                        b = static_cast<int8_t>(tb::bytes_in(weights)[packed_at(n, k)]);
                    } else {
                        const int64_t at = row_at(c.b, c.b_stride, i, j, k) + static_cast<int64_t>(n) * c.b_stride[3];
                        a -= c.a_zero;
                        b = tb::value_of(tb::bytes_in(arena)[at], c.b_format) - c.b_zero;
                    }
                    sum += a * b;
                }
                const int32_t residual =
                    c.residual == ABSENT
                        ? 0
                        : tb::value_of(tb::bytes_in(arena)[row_at(c.residual, c.residual_stride, i, j, m) + n],
                                       c.residual_format);
                const size_t own = row_at(0, c.row_stride, i, j, m);
                const double scale = c.row_scale == ABSENT ? 1.0 : arena[static_cast<size_t>(c.row_scale) + own];
                const int32_t times = c.row_zero == ABSENT ? 1
                                                           : tb::word_at(arena, static_cast<size_t>(c.row_zero) + own);
                const double expected = tb::reference_result(c, weights, n / width, n % width, width, sum, residual,
                                                             scale, times);
                const size_t to = row_at(c.output, c.out_stride, i, j, m) + n;
                const std::string where = "matrix " + std::to_string(i) + " " + std::to_string(j) + ", row " +
                                          std::to_string(m) + ", column " + std::to_string(n);
                const size_t parameter = c.parameters + static_cast<size_t>(n / width) * 3 * width + n % width;
                if (c.out_format == fpga::FORMAT_I32)
                    report.close(tb::word_at(arena, to), sum + tb::word_at(weights, parameter), 0, where);
                else if (bytes == 4)
                    report.close(arena[to], expected, 2e-5 * (1 + std::fabs(expected)), where);
                else
                    report.close(tb::bytes_in(arena)[to], expected,
                                 c.activation == fpga::ACT_NONE || c.table != ABSENT ? 0 : 1, where);
            }
        });
    });
}

}  // namespace

int main(int argc, char** argv) {
    tb::random_source random(43);
    for (int i = 0; i < tb::share_of(500, argc, argv); i++) {
        const shape s = {{random.pick({1, 1, 2, 3}), random.pick({1, 1, 2, 4})},
                         random.pick({1, 2, 5, 7, 16, 33, 70}),
                         random.pick({1, 3, 16, 17, 58, 64, 100, 130}),
                         random.pick({1, 3, 16, 31, 64, 100, 128, 300}),
                         random.integer(1, 4)};
        run_case(s, random.chance(0.6), random);
    }
    run_case({{1, 1}, 3, 70, 9000, 4}, true, random);  // several blocks of k
    run_case({{1, 1}, 1500, 40, 64, 2}, true, random);
    run_case({{1, 1}, 40, 20, 4 * fpga::tile::K_BLOCK, 1}, false, random);  // as many as a panel holds
    return report.finish();
}
