// Test bench of the core attention: random heads, masks and layouts against attention in double precision.
#include "core.hpp"

#include "tb/matrices.hpp"
#include "tb/tb.hpp"

namespace {

using fpga::ABSENT;
using fpga::VEC;
using tb::at;

tb::report report("attention");

struct shape {
    int batch[2];
    int rows, keys, width, value_width;
    bool shared_heads;  // keys and values are those of one head for all of a batch
};

// A batch of rows x columns matrices with random values; columns contiguous if `transposed`.
uint32_t place(tb::memory& memory, tb::random_source& random, const int batch[2], int rows, int columns,
               bool transposed, int32_t stride[4]) {
    const auto pitch = [&](int inner) { return inner + random.pick({0, 0, 5, 16}); };
    return tb::place(memory, random, batch, rows, columns, transposed, pitch, stride);
}

// A mask of random numbers, -inf here and there, some rows of nothing else; any of its dimensions may be broadcast.
uint32_t place_mask(tb::memory& memory, tb::random_source& random, const shape& s, int32_t stride[4]) {
    const uint32_t base = place(memory, random, s.batch, s.rows, s.keys, false, stride);
    for (int i = 0; i < s.batch[0]; i++)
        for (int j = 0; j < s.batch[1]; j++)
            for (int r = 0; r < s.rows; r++) {
                const bool whole = random.chance(0.1);
                for (int k = 0; k < s.keys; k++)
                    if (whole || random.chance(0.2)) memory[at(base, stride, i, j, r, k)] = -INFINITY;
            }
    for (int d = 0; d < 4; d++)
        if (random.chance(0.3)) stride[d] = 0;
    return base;
}

// Softmax weights of row (i, j, row), and the largest absolute score.
std::vector<double> weights_of(const fpga::attention_command& c, const int32_t query_stride[4], const tb::memory& arena,
                               const tb::memory& mask, int i, int j, int row) {
    std::vector<double> x;
    double largest = -INFINITY, sum = 0;
    for (int k = 0; k < c.keys; k++) {
        double score = 0;
        for (int d = 0; d < c.width; d++)
            score += static_cast<double>(arena[at(c.query, query_stride, i, j, row, d)]) *
                     arena[at(c.key, c.key_stride, i, j, d, k)];
        score *= c.scale;
        if (c.mask != ABSENT) score += mask[at(c.mask, c.mask_stride, i, j, row, k)];
        x.push_back(score);
        largest = std::isnan(score) || score > largest ? score : largest;
    }
    if (c.masked_to_zero && largest == -INFINITY) return std::vector<double>(c.keys, 0.0);
    for (double& y : x) sum += y = std::exp(y - largest);
    for (double& y : x) y /= sum;
    return x;
}

void check(const shape& s, tb::random_source& random) {
    fpga::attention_command c = {};
    tb::memory arena, weights;
    const int one[2] = {1, 1};
    c.batch[0] = s.batch[0];
    c.batch[1] = s.batch[1];
    c.rows = s.rows;
    c.keys = s.keys;
    c.width = s.width;
    c.value_width = s.value_width;
    c.scale = random.pick({1.0f, 0.125f, -2.0f});
    int32_t query_stride[4], out_stride[4];
    c.query = place(arena, random, s.batch, s.rows, s.width, false, query_stride);
    const int* shared = s.shared_heads ? one : s.batch;
    c.key = place(arena, random, shared, s.width, s.keys, random.chance(0.7), c.key_stride);
    c.value = place(arena, random, shared, s.keys, s.value_width, random.chance(0.3), c.value_stride);
    if (s.shared_heads) c.key_stride[0] = c.key_stride[1] = c.value_stride[0] = c.value_stride[1] = 0;
    if (random.chance(0.1)) arena[at(c.query, query_stride, 0, 0, s.rows / 2, s.width / 2)] = NAN;
    c.masked_to_zero = random.chance(0.5);
    c.mask_in_weights = random.chance(0.3);
    tb::memory& mask = c.mask_in_weights ? weights : arena;
    c.mask = random.chance(0.5) ? place_mask(mask, random, s, c.mask_stride) : ABSENT;
    const int stored = fpga::round_up(s.value_width, VEC);
    out_stride[3] = 1;
    out_stride[2] = stored + random.pick({0, 16, 5});
    out_stride[1] = out_stride[2] * s.rows;
    out_stride[0] = out_stride[1] * s.batch[1];
    c.output = arena.allocate(static_cast<int64_t>(out_stride[0]) * s.batch[0]);
    for (int d = 0; d < 3; d++) {
        c.query_stride[d] = query_stride[d];
        c.out_stride[d] = out_stride[d];
    }

    const auto each_row = [&](const auto& visit) {
        for (int i = 0; i < s.batch[0]; i++)
            for (int j = 0; j < s.batch[1]; j++)
                for (int r = 0; r < s.rows; r++) visit(i, j, r);
    };
    std::vector<double> expected;
    each_row([&](int i, int j, int r) {
        const std::vector<double> share = weights_of(c, query_stride, arena, mask, i, j, r);
        for (int n = 0; n < s.value_width; n++) {
            double sum = 0;
            for (int k = 0; k < s.keys; k++) sum += share[k] * arena[at(c.value, c.value_stride, i, j, k, n)];
            expected.push_back(sum);
        }
    });
    // A score's rounding error is a relative error of its weight; weights sum up to 1.
    const double tolerance = tb::sum_tolerance(std::fabs(c.scale) * s.width + 4, s.width);

#ifndef __SYNTHESIS__
    if (!report.bounded(c, fpga::attention_bounds, arena, weights)) return;
#endif

    const auto each_output = [&](const auto& visit) {
        each_row([&](int i, int j, int r) { visit(at(c.output, out_stride, i, j, r, 0)); });
    };
    tb::run_sliced(report, c, fpga::attention, arena, weights, stored, each_output, [&](const std::string& where) {
        size_t e = 0;
        each_row([&](int i, int j, int r) {
            for (int n = 0; n < s.value_width; n++, e++)
                report.close(arena[at(c.output, out_stride, i, j, r, n)], expected[e], tolerance,
                             where + "head " + std::to_string(i) + " " + std::to_string(j) + ", row " +
                                 std::to_string(r) + ", column " + std::to_string(n));
        });
    });
}

void run_case(const shape& s, tb::random_source& random) {
    char text[128];
    std::snprintf(text, sizeof text, "%d x %d heads, %d rows, %d keys, widths %d %d, shared %d", s.batch[0], s.batch[1],
                  s.rows, s.keys, s.width, s.value_width, s.shared_heads);
    report.begin(text);
    check(s, random);
}

shape random_shape(tb::random_source& random) {
    shape s;
    s.batch[0] = random.pick({1, 1, 2});
    s.batch[1] = random.pick({1, 2, 3});
    s.rows = random.pick({1, 1, 2, 5, 6, 7, 13, 50});
    s.keys = random.pick({1, 2, 15, 16, 17, 40, 64, 70, 130});
    s.width = random.pick({1, 5, 16, 24, 64});
    s.value_width = random.pick({1, 7, 16, 40, 64, 70});
    s.shared_heads = random.chance(0.2);
    return s;
}

}  // namespace

int main(int argc, char** argv) {
    tb::random_source random(31);
    for (int i = 0; i < tb::share_of(100, argc, argv); i++) run_case(random_shape(random), random);
    const shape large[] = {
        {{1, 2}, 3, 1100, 64, 64, false},  // panels that are packed for each block of rows
        {{1, 1}, 2, 2500, 8, 17, false},   // values in two blocks of k
        {{1, 1}, 5, 20, 700, 130, false},  // a score of several parts
        {{1, 1}, 100, 70, 8, 8, false},    // several blocks of rows
    };
    for (const shape& s : large) run_case(s, random);
    return report.finish();
}
