// Test bench of the core gemm: random products, packed and from the arena, against a product in double precision.
#include "core.hpp"

#include "tb/matrices.hpp"
#include "tb/packed.hpp"
#include "tb/tb.hpp"

namespace {

using fpga::ABSENT;
using fpga::VEC;
using tb::at;

tb::report report("gemm");

struct shape {
    int batch[2];
    int rows, columns, depth;
    bool packed;
    bool a_transposed;  // rows contiguous
    bool b_transposed;  // k contiguous
    bool dense;         // rows without padding
    bool share_b;       // one b for the batch
    int vectors;
    float alpha;
};

// A batch of rows x columns matrices with random values and poison between them.
uint32_t place(tb::memory& memory, tb::random_source& random, const int batch[2], int rows, int columns,
               bool transposed, bool dense, int32_t stride[4]) {
    const auto pitch = [&](int inner) {
        return dense ? inner : fpga::round_up(inner, VEC) + random.pick({0, 0, 16, 5});
    };
    return tb::place(memory, random, batch, rows, columns, transposed, pitch, stride);
}

// Rows that are stored in whole vectors, possibly a slice of wider ones; stride[3] is 1.
uint32_t place_rows(tb::memory& memory, tb::random_source& random, const int batch[2], int rows, int columns,
                    int32_t stride[4]) {
    const int lead = random.pick({0, 0, 8, 24});
    stride[3] = 1;
    stride[2] = fpga::round_up(columns, VEC) + lead + random.pick({0, 0, 16, 40});
    stride[1] = stride[2] * rows;
    stride[0] = stride[1] * batch[1] + random.pick({0, 32});
    return memory.allocate(static_cast<int64_t>(stride[0]) * batch[0] + lead) + lead;
}

template <class VISIT>
void each_row(const fpga::gemm_command& c, VISIT visit) {
    for (int i = 0; i < c.batch[0]; i++)
        for (int j = 0; j < c.batch[1]; j++)
            for (int r = 0; r < c.rows; r++) visit(i, j, r);
}

void check(const shape& s, tb::random_source& random) {
    fpga::gemm_command c = {};
    tb::memory arena, weights;
    const int one[2] = {1, 1};
    c.batch[0] = s.batch[0];
    c.batch[1] = s.batch[1];
    c.rows = s.rows;
    c.columns = s.columns;
    c.depth = s.depth;
    c.vectors = fpga::minimum(s.vectors, fpga::tile::MAX_VECTORS);
    c.alpha = s.alpha;
    c.b_packed = s.packed;
    c.a = place(arena, random, s.batch, s.rows, s.depth, s.a_transposed, s.dense, c.a_stride);
    if (random.chance(0.1)) arena[at(c.a, c.a_stride, 0, 0, s.rows / 2, s.depth / 2)] = NAN;

    const int width = c.vectors * VEC;
    const int panels = fpga::ceil_div(c.columns, width);
    if (s.packed) c.b_format = random.pick({fpga::FORMAT_F32, fpga::FORMAT_BF16, fpga::FORMAT_F16, fpga::FORMAT_I8});
    tb::packed packed(weights, s.packed ? static_cast<int64_t>(panels) * s.depth * width : 0, c.b_format);
    const auto packed_at = [&](int k, int n) {
        return (static_cast<int64_t>(n / width) * s.depth + k) * width + n % width;
    };
    if (s.packed) {
        c.b = packed.offset();
        for (int n = 0; n < panels * width; n++)
            for (int k = 0; k < s.depth; k++) packed.set(packed_at(k, n), n < s.columns ? random.real(-1, 1) : 0);
    } else {
        c.b = place(arena, random, s.share_b ? one : s.batch, s.depth, s.columns, s.b_transposed, s.dense, c.b_stride);
        if (s.share_b) c.b_stride[0] = c.b_stride[1] = 0;
    }
    const auto b_value = [&](int i, int j, int k, int n) -> double {
        if (!s.packed) return arena[at(c.b, c.b_stride, i, j, k, n)];
        return packed[packed_at(k, n)];
    };
    c.bias = random.chance(0.6) ? weights.allocate_random(panels * width, random) : ABSENT;

    int32_t out_stride[4], residual_stride[4] = {};
    c.output = place_rows(arena, random, s.batch, s.rows, s.columns, out_stride);
    c.residual = ABSENT;
    if (random.chance(0.4)) {
        c.residual = place_rows(arena, random, s.batch, s.rows, s.columns, residual_stride);
        each_row(c, [&](int i, int j, int r) {
            for (int n = 0; n < s.columns; n++) arena[at(c.residual, residual_stride, i, j, r, n)] = random.real(-1, 1);
        });
    }
    for (int d = 0; d < 3; d++) {
        c.out_stride[d] = out_stride[d];
        c.residual_stride[d] = residual_stride[d];
    }
    tb::random_activation(c, random);

    std::vector<double> expected, tolerance;
    each_row(c, [&](int i, int j, int r) {
        for (int n = 0; n < s.columns; n++) {
            double sum = 0, absolute = 0;
            for (int k = 0; k < s.depth; k++) {
                const double term = arena[at(c.a, c.a_stride, i, j, r, k)] * b_value(i, j, k, n);
                sum += term;
                absolute += std::fabs(term);
            }
            sum *= s.alpha;
            if (c.bias != ABSENT) sum += weights[c.bias + n];
            if (c.residual != ABSENT) sum += arena[at(c.residual, residual_stride, i, j, r, n)];
            expected.push_back(tb::reference_activation(sum, c.activation, c.act_a, c.act_b));
            tolerance.push_back(tb::sum_tolerance(absolute * std::fabs(s.alpha) + 2, s.depth));
        }
    });

#ifndef __SYNTHESIS__
    if (!report.bounded(c, fpga::gemm_bounds, arena, weights)) return;
#endif

    const int stored = fpga::round_up(s.columns, VEC);
    const auto each_output = [&](const auto& visit) {
        each_row(c, [&](int i, int j, int r) { visit(at(c.output, out_stride, i, j, r, 0)); });
    };
    tb::run_sliced(report, c, fpga::gemm, arena, weights, stored, each_output, [&](const std::string& where) {
        size_t e = 0;
        each_row(c, [&](int i, int j, int r) {
            for (int n = 0; n < s.columns; n++, e++)
                report.close(arena[at(c.output, out_stride, i, j, r, n)], expected[e], tolerance[e],
                             where + "matrix " + std::to_string(i) + " " + std::to_string(j) + ", row " +
                                 std::to_string(r) + ", column " + std::to_string(n));
        });
    });
    if (c.b_format != fpga::FORMAT_F32) {
        fpga::gemm_command wide = c;
        wide.b = packed.widened();
        wide.b_format = fpga::FORMAT_F32;
        tb::compare_with_floats(report, c, wide, fpga::gemm, arena, weights, stored, each_output);
    }
}

void run_case(const shape& s, tb::random_source& random) {
    char text[256];
    std::snprintf(text, sizeof text,
                  "%d x %d x (%d x %d x %d), packed %d, transposed %d %d, dense %d, shared b %d, vectors %d, alpha %g",
                  s.batch[0], s.batch[1], s.rows, s.depth, s.columns, s.packed, s.a_transposed, s.b_transposed, s.dense,
                  s.share_b, s.vectors, s.alpha);
    report.begin(text);
    check(s, random);
}

shape random_shape(tb::random_source& random) {
    shape s;
    s.batch[0] = random.pick({1, 1, 2, 3});
    s.batch[1] = random.pick({1, 1, 2, 5});
    s.rows = random.pick({1, 1, 2, 3, 4, 5, 6, 7, 8, 15, 33});
    s.columns = random.pick({1, 3, 10, 16, 17, 58, 64, 100, 130});
    s.depth = random.pick({1, 2, 7, 16, 17, 31, 64, 100});
    s.packed = random.chance(0.5);
    s.a_transposed = random.chance(0.4);
    s.b_transposed = random.chance(0.5);
    s.dense = random.chance(0.5);
    s.share_b = random.chance(0.2);
    s.vectors = random.integer(1, fpga::tile::MAX_VECTORS);
    s.alpha = random.pick({1.0f, 1.0f, 0.125f, -2.0f});
    return s;
}

// Several blocks of k and of rows, which random small shapes do not reach.
void large_cases(tb::random_source& random) {
    const shape cases[] = {
        {{1, 1}, 1, 70, 5000, true, false, false, true, false, 4, 1},      // weights streamed once
        {{1, 1}, 3, 40, 4100, true, true, false, true, false, 2, 1},       // a through the slab, three blocks of k
        {{1, 1}, 9, 70, 4500, true, false, false, false, false, 4, 0.5f},  // three blocks of k
        {{1, 2}, 9, 70, 2100, false, false, false, true, false, 4, 0.5f},  // b packed in two blocks of k
        {{2, 1}, 60, 33, 2100, false, true, true, true, false, 3, 1},      // both transposed
        {{1, 1}, 1500, 20, 33, true, false, false, false, false, 2, 1},    // several blocks of rows
        {{2, 1}, 1100, 17, 20, false, true, false, true, false, 2, 1},
        {{3, 1}, 500, 17, 20, false, false, true, true, true, 2, 1},   // a block of rows of several matrices
        {{3, 1}, 90, 200, 600, false, true, false, true, true, 4, 1},  // panels that wait for blocks of k
        {{1, 1}, 60, 100, 600, true, true, false, false, false, 2, 0.5f},
        {{5, 3}, 7, 16, 64, true, true, false, true, false, 1, 1},
    };
    for (const shape& s : cases) run_case(s, random);
}

}  // namespace

int main(int argc, char** argv) {
    tb::random_source random(21);
    for (int i = 0; i < tb::share_of(800, argc, argv); i++) run_case(random_shape(random), random);
    if (tb::with_large_cases(argc, argv)) large_cases(random);
    return report.finish();
}
