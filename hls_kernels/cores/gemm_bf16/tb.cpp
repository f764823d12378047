// Test bench of the core gemm_bf16: random products of floats and bfloat16, packed and from the arena, against a product of
// the rounded operands in double precision.
#include "core.hpp"

#include "tb/tb.hpp"

namespace {

using fpga::ABSENT;
using fpga::FORMAT_BF16;
using fpga::FORMAT_F32;
using fpga::VEC;

tb::report report("gemm_bf16");

struct shape {
    int batch[2], rows, columns, depth, vectors;
    bool packed;
};

float rounded(float x) { return fpga::round_to_bf16(fpga::vec16(x))[0]; }

// Elements of a format in a memory; offsets count elements.
class elements {
public:
    elements(tb::memory& memory, int32_t format) : memory_(&memory), bytes_(fpga::bytes_of(format)) {}

    int64_t allocate(int64_t count) { return int64_t{memory_->allocate((count * bytes_ + 3) / 4)} * 4 / bytes_; }
    float get(int64_t at) const {
        uint32_t bits = 0;
        std::memcpy(&bits, address(at), static_cast<size_t>(bytes_));
        if (bytes_ == 2) bits <<= 16;
        float x;
        std::memcpy(&x, &bits, sizeof x);
        return x;
    }
    void set(int64_t at, float x) {
        const float stored = bytes_ == 2 ? rounded(x) : x;
        uint32_t bits;
        std::memcpy(&bits, &stored, sizeof bits);
        if (bytes_ == 2) bits >>= 16;
        std::memcpy(address(at), &bits, static_cast<size_t>(bytes_));
    }

private:
    char* address(int64_t at) const { return reinterpret_cast<char*>(memory_->region()) + at * bytes_; }

    tb::memory* memory_;
    int32_t bytes_;
};

int64_t at(int64_t base, const int32_t* stride, int i, int j, int m, int n = 0, int32_t last = 1) {
    return base + int64_t{i} * stride[0] + int64_t{j} * stride[1] + int64_t{m} * stride[2] + int64_t{n} * last;
}

// Strides of a batch of `outer` rows of `inner` elements, with gaps or (dense) without, and how many elements that takes.
int64_t lay_out(tb::random_source& random, const int batch[2], int outer, int inner, bool dense, int32_t stride[3]) {
    stride[2] = inner + (dense ? 0 : random.pick({0, 16, 5}));
    const bool swapped = random.chance(0.3);
    stride[swapped ? 0 : 1] = stride[2] * outer;
    stride[swapped ? 1 : 0] = stride[2] * outer * batch[swapped ? 0 : 1];
    return int64_t{stride[2]} * outer * batch[0] * batch[1];
}

std::vector<char> bytes_of(const tb::memory& memory) {
    const char* from = reinterpret_cast<const char*>(memory.region());
    return std::vector<char>(from, from + 4 * memory.size());
}

int32_t random_format(tb::random_source& random) { return random.pick({FORMAT_F32, FORMAT_BF16}); }

// A random operand in either orientation: strides of the batch, of its rows and its columns.
int64_t place(tb::memory& memory, tb::random_source& random, int32_t format, const int batch[2], int rows, int columns,
              int32_t stride[4]) {
    const bool transposed = random.chance(0.4);
    int32_t own[3];
    elements to(memory, format);
    const int64_t count = lay_out(random, batch, transposed ? columns : rows, transposed ? rows : columns,
                                  random.chance(0.5), own);
    const int64_t base = to.allocate(count);
    stride[0] = own[0];
    stride[1] = own[1];
    stride[transposed ? 3 : 2] = own[2];
    stride[transposed ? 2 : 3] = 1;
    for (int64_t i = 0; i < count; i++) to.set(base + i, random.real(-1, 1));
    return base;
}

void check(const shape& s, tb::random_source& random) {
    fpga::gemm_bf16_command c = {};
    tb::memory arena, weights;
    c.batch[0] = s.batch[0];
    c.batch[1] = s.batch[1];
    c.rows = s.rows;
    c.columns = s.columns;
    c.depth = s.depth;
    c.vectors = fpga::minimum(s.vectors, fpga::tile::MAX_VECTORS);
    c.alpha = random.chance(0.7) ? 1.0f : random.real(-1, 1);
    c.b_packed = s.packed;
    c.a_format = random_format(random);
    c.residual_format = random_format(random);
    c.out_format = random_format(random);
    c.a = static_cast<fpga::place_t>(place(arena, random, c.a_format, s.batch, s.rows, s.depth, c.a_stride));
    elements a(arena, c.a_format), output(arena, c.out_format), residual(arena, c.residual_format);
    if (random.chance(0.1))
        a.set(at(c.a, c.a_stride, 0, 0, s.rows / 2, s.depth / 2, c.a_stride[3]), random.chance(0.5) ? NAN : INFINITY);

    const int width = c.vectors * VEC, panels = fpga::ceil_div(c.columns, width), pairs = fpga::pairs_of(c.depth);
    c.b_format = s.packed ? FORMAT_BF16 : random_format(random);
    elements b(s.packed ? weights : arena, c.b_format);
    const auto packed_at = [&](int k, int n) {
        return c.b + ((int64_t{n / width} * pairs + k / 2) * width + n % width) * 2 + k % 2;
    };
    if (s.packed) {
        const int64_t count = int64_t{panels} * pairs * width * 2;
        c.b = static_cast<fpga::place_t>((b.allocate(count + 32) + 31) / 32 * 32);
        for (int64_t i = 0; i < count; i++) b.set(c.b + i, 0);
        for (int n = 0; n < c.columns; n++)
            for (int k = 0; k < c.depth; k++) b.set(packed_at(k, n), random.real(-1, 1));
    } else {
        c.b = static_cast<fpga::place_t>(place(arena, random, c.b_format, s.batch, s.depth, s.columns, c.b_stride));
        if (random.chance(0.2)) c.b_stride[0] = c.b_stride[1] = 0;
    }
    c.bias = random.chance(0.6) ? weights.allocate_random(panels * width, random) : ABSENT;
    const int stored = fpga::round_up(c.columns, VEC);
    int64_t count = lay_out(random, s.batch, s.rows, stored, false, c.out_stride);
    c.output = static_cast<fpga::place_t>(output.allocate(count));
    c.residual = ABSENT;
    if (random.chance(0.4)) {
        count = lay_out(random, s.batch, s.rows, stored, false, c.residual_stride);
        c.residual = static_cast<fpga::place_t>(residual.allocate(count));
        for (int64_t i = 0; i < count; i++) residual.set(c.residual + i, random.real(-1, 1));
    }
    tb::random_activation(c, random);
    char text[160];
    std::snprintf(text, sizeof text, "%d x %d x %d x %d x %d, vectors %d, packed %d, formats %d %d %d %d", s.batch[0],
                  s.batch[1], s.rows, s.depth, s.columns, c.vectors, s.packed, c.a_format, c.b_format,
                  c.residual_format, c.out_format);
    report.begin(text);
#ifndef __SYNTHESIS__
    if (!report.bounded(c, fpga::gemm_bf16_bounds, arena, weights)) return;
#endif
    const auto each_row = [&](const auto& visit) {
        for (int i = 0; i < c.batch[0]; i++)
            for (int j = 0; j < c.batch[1]; j++)
                for (int m = 0; m < c.rows; m++) visit(i, j, m);
    };
    std::vector<double> expected, tolerance;
    each_row([&](int i, int j, int m) {
        for (int n = 0; n < c.columns; n++) {
            double sum = 0, absolute = 0;
            for (int k = 0; k < c.depth; k++) {
                const double x = rounded(a.get(at(c.a, c.a_stride, i, j, m, k, c.a_stride[3])));
                const double w = s.packed ? b.get(packed_at(k, n))
                                          : rounded(b.get(at(c.b, c.b_stride, i, j, k, n, c.b_stride[3])));
                sum += x * w;
                absolute += std::fabs(x * w);
            }
            sum *= c.alpha;
            if (c.bias != ABSENT) sum += weights[c.bias + n];
            if (c.residual != ABSENT) sum += residual.get(at(c.residual, c.residual_stride, i, j, m, n));
            expected.push_back(tb::reference_activation(sum, c.activation, c.act_a, c.act_b));
            tolerance.push_back(tb::sum_tolerance(absolute * std::fabs(c.alpha) + 2, c.depth) +
                                (c.out_format == FORMAT_BF16 ? std::fabs(expected.back()) / 256 : 0));
        }
    });
    // Results in words of the memory, whatever their width: rows are stored whole.
    const int words = stored * fpga::bytes_of(c.out_format) / 4;
    std::vector<uint32_t> unsliced;
    for (const uint32_t slices : {1u, 3u, 8u}) {
        std::vector<bool> ours(arena.size() * 4 + 4, false);
        const std::vector<char> before = bytes_of(arena);
        each_row([&](int i, int j, int m) {
            const int64_t first = at(c.output, c.out_stride, i, j, m);
            for (int n = 0; n < stored; n++) output.set(first + n, NAN);
            for (int64_t byte = 0; byte < int64_t{4} * words; byte++)
                ours[static_cast<size_t>(first * fpga::bytes_of(c.out_format) + byte)] = true;
        });
        for (uint32_t slice = 0; slice < slices; slice++)
            fpga::gemm_bf16(c, nullptr, arena.region(), weights.region(), slice, slices);
        const std::vector<char> after = bytes_of(arena);
        for (size_t i = 0; i < after.size(); i++)
            if (!ours[i] && before[i] != after[i]) report.fail("stray store at byte " + std::to_string(i));
        size_t next = 0, seen = 0;
        each_row([&](int i, int j, int m) {
            for (int n = 0; n < c.columns; n++, next++) {
                const float got = output.get(at(c.output, c.out_stride, i, j, m, n));
                report.close(got, expected[next], tolerance[next], "slices " + std::to_string(slices));
                uint32_t bits = 0x7fc00000;
                if (!std::isnan(got)) std::memcpy(&bits, &got, sizeof bits);
                if (slices == 1)
                    unsliced.push_back(bits);
                else if (unsliced[seen++] != bits)
                    report.fail("another result in " + std::to_string(slices) + " slices");
            }
        });
    }
}

}  // namespace

int main(int argc, char** argv) {
    tb::random_source random(44);
    for (int i = 0; i < tb::share_of(500, argc, argv); i++) {
        const shape s = {{random.pick({1, 1, 2, 3}), random.pick({1, 1, 2, 4})},
                         random.pick({1, 2, 5, 7, 16, 33, 70}),
                         random.pick({1, 3, 16, 17, 58, 64, 100, 130}),
                         random.pick({1, 2, 3, 16, 31, 32, 64, 100, 128, 300}),
                         random.integer(1, 4),
                         random.chance(0.6)};
        check(s, random);
    }
    if (tb::with_large_cases(argc, argv)) {
        check({{1, 1}, 3, 70, 5000, 4, true}, random);  // several blocks of k on the card
        check({{1, 1}, 1500, 40, 64, 2, true}, random);
        check({{1, 1}, 40, 20, 2 * fpga::tile::K_BLOCK, 1, false}, random);  // as many as a panel holds
    }
    return report.finish();
}
