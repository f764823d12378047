// Every micro-operation on ordinary and special values, then random programs over random layouts.
#include "core.hpp"

#include "tb/tb.hpp"

namespace {

using fpga::pointwise_command;

int32_t int_bits(float x) {
    int32_t i;
    std::memcpy(&i, &x, sizeof i);
    return i;
}
float float_bits(int32_t i) {
    float x;
    std::memcpy(&x, &i, sizeof x);
    return x;
}

double reference(int op, double a, double b, double c) {
    using namespace fpga;
    switch (op) {
        case MICRO_COPY: return a;
        case MICRO_ADD: return a + b;
        case MICRO_SUB: return a - b;
        case MICRO_MUL: return a * b;
        case MICRO_DIV: return a / b;
        case MICRO_FMA: return a * b + c;
        case MICRO_MIN: return std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b);
        case MICRO_MAX: return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b);
        case MICRO_NEG: return -a;
        case MICRO_ABS: return std::fabs(a);
        case MICRO_SQRT: return std::sqrt(a);
        case MICRO_RSQRT: return 1 / std::sqrt(a);
        case MICRO_RECIPROCAL: return 1 / a;
        case MICRO_EXP: return std::exp(a);
        case MICRO_LOG: return std::log(a);
        case MICRO_TANH: return std::tanh(a);
        case MICRO_ERF: return std::erf(a);
        case MICRO_SIGMOID: return 1 / (1 + std::exp(-a));
        case MICRO_POW: return std::pow(a, b);
        case MICRO_FLOOR: return std::floor(a);
        case MICRO_CEIL: return std::ceil(a);
        case MICRO_ROUND: return std::nearbyint(a);
        case MICRO_TRUNC: return std::trunc(a);
        case MICRO_EQ: return a == b;
        case MICRO_NE: return a != b;
        case MICRO_LT: return a < b;
        case MICRO_LE: return a <= b;
        case MICRO_GT: return a > b;
        case MICRO_GE: return a >= b;
        case MICRO_AND: return a != 0 && b != 0;
        case MICRO_OR: return a != 0 || b != 0;
        case MICRO_NOT: return a == 0;
        case MICRO_WHERE: return a != 0 ? b : c;
        case MICRO_SIN: return std::sin(a);
        case MICRO_COS: return std::cos(a);
        case MICRO_SIGN: return (a > 0) - (a < 0);
        case MICRO_EXPM1: return std::expm1(a);
        case MICRO_LOG1P: return std::log1p(a);
        case MICRO_RELU: return std::isnan(a) ? a : std::max(a, 0.0);
        default: std::abort();
    }
}

float round_like_float(double x) { return static_cast<float>(x); }

// The command list memory: a program and its constants.
struct program {
    std::vector<uint32_t> words;
    std::vector<float> constants;
    void add(int op, int to, int a, int b = 0, int c = 0) {
        words.push_back(op | to << 8 | a << 16 | static_cast<uint32_t>(b) << 24);
        words.push_back(c);
    }
    void place(tb::memory& commands, pointwise_command& command) const {
        command.instructions = static_cast<int32_t>(words.size() / 2);
        command.constant_count = static_cast<int32_t>(constants.size());
        command.program = commands.allocate(words.size());
        command.constants = constants.empty() ? 0 : commands.allocate(constants.size());
        for (size_t i = 0; i < words.size(); i++) std::memcpy(&commands[command.program + i], &words[i], 4);
        for (size_t i = 0; i < constants.size(); i++) commands[command.constants + i] = constants[i];
    }
};

void every_operation(tb::report& report) {
    const float value[] = {0.0f,   -0.0f, 1.0f,   -1.0f,  0.5f,     -0.5f,     2.5f, -3.5f,
                           1e-20f, 7.25f, -40.0f, 100.0f, INFINITY, -INFINITY, NAN};
    const int n = static_cast<int>(sizeof value / sizeof *value);
    for (int op = fpga::MICRO_COPY; op <= fpga::MICRO_RELU; op++) {
        tb::memory arena, commands;
        pointwise_command c = {};
        program code;
        code.add(op, 19, 16, 17, 18);
        code.place(commands, c);
        c.inputs = 3;
        c.outputs = 1;
        const int total = n * n;
        for (int d = 0; d < 3; d++) c.dims[d] = 1;
        c.dims[3] = total;
        for (int s = 0; s < 4; s++) c.stream[s] = arena.allocate(total);
        const bool from_int = op == fpga::MICRO_INT_TO_FLOAT, to_int = op == fpga::MICRO_FLOAT_TO_INT;
        for (int i = 0; i < total; i++) {
            float& first = arena[c.stream[0] + i];
            first = from_int ? float_bits(i * 7919 - 100000) : to_int ? (i - 100) * 1234.75f : value[i / n];
            arena[c.stream[1] + i] = value[i % n];
            arena[c.stream[2] + i] = static_cast<float>(i);
        }
        report.begin("operation " + std::to_string(op));
        report.check(fpga::pointwise(c, commands.region(), arena.region(), nullptr, 0, 1) == fpga::STATUS_OK, "status");
        for (int i = 0; i < total; i++) {
            const float a = arena[c.stream[0] + i], b = arena[c.stream[1] + i], got = arena[c.stream[3] + i];
            if (from_int) {
                report.check(got == static_cast<float>(int_bits(a)), "int_to_float");
            } else if (to_int) {
                report.check(int_bits(got) == static_cast<int32_t>(a), "float_to_int");
            } else {
                const double want = round_like_float(reference(op, a, b, arena[c.stream[2] + i]));
                report.close(got, want, std::fabs(want) * 1e-6, "a " + std::to_string(a) + " b " + std::to_string(b));
            }
        }
    }
}

int64_t integer_reference(int op, int64_t a, int64_t b) {
    using namespace fpga;
    switch (op) {
        case MICRO_INT_ADD: return a + b;
        case MICRO_INT_SUB: return a - b;
        case MICRO_INT_MUL: return a * b;
        case MICRO_INT_MIN: return std::min(a, b);
        case MICRO_INT_MAX: return std::max(a, b);
        case MICRO_INT_EQ: return int_bits(a == b);
        case MICRO_INT_LT: return int_bits(a < b);
        case MICRO_BITS_AND: return a & b;
        case MICRO_BITS_OR: return a | b;
        case MICRO_BITS_XOR: return a ^ b;
        case MICRO_SHIFT_LEFT: return a * (int64_t{1} << b);
        case MICRO_SHIFT_RIGHT: return a >> b;
        case MICRO_INT_FLOOR_DIV: return (a - ((a % b) + b) % b) / b;
        default: std::abort();
    }
}

// Pairs of integers at all ends of the range; results are taken modulo 2^32.
void every_integer_operation(tb::report& report) {
    using namespace fpga;
    const int32_t value[] = {0, 1, -1, 2, -7, 31, 100, (1 << 24) + 1, 0x7f800001, INT32_MAX, INT32_MIN, INT32_MIN + 1};
    const int n = static_cast<int>(sizeof value / sizeof *value);
    for (int op = MICRO_INT_ADD; op <= MICRO_INT_FLOOR_DIV; op++) {
        const bool shift = op == MICRO_SHIFT_LEFT || op == MICRO_SHIFT_RIGHT;
        float to[VEC], left[VEC], right[VEC];
        const micro_instruction instruction = {op, 0, 1, 2, 2};
        report.begin("integer operation " + std::to_string(op));
        for (int first = 0; first < n * n; first += VEC) {
            for (int i = 0; i < VEC; i++) {
                const int pair = std::min(first + i, n * n - 1);
                const int32_t y = value[pair % n];
                left[i] = float_bits(value[pair / n]);
                right[i] = float_bits(shift ? y & 31 : op == MICRO_INT_FLOOR_DIV ? std::max(y, 1) : y);
            }
#ifdef __SYNTHESIS__
            static micro_operands operand;
            operand[1][0] = load(left, 0);
            operand[2][0] = load(right, 0);
            run_micro(operand, instruction, 1);
            store(to, 0, operand[0][0]);
#else
            micro_operands operand = {to, left, right};
            run_micro(operand, instruction, 1);
#endif
            for (int i = 0; i < VEC; i++) {
                const auto want = static_cast<uint32_t>(integer_reference(op, int_bits(left[i]), int_bits(right[i])));
                report.check(static_cast<uint32_t>(int_bits(to[i])) == want,
                             std::to_string(int_bits(left[i])) + ", " + std::to_string(int_bits(right[i])));
            }
        }
    }
}

void lay_out(pointwise_command& c, int s, tb::memory& where, tb::random_source& random, bool output) {
    int64_t stride[4];
    const int kind = random.integer(0, 4);
    if (kind == 0 && !output) {  // broadcast along some dimensions
        int64_t next = 1;
        for (int d = 3; d >= 0; d--) {
            const bool zero = random.chance(0.5);
            stride[d] = zero ? 0 : next;
            if (!zero) next *= c.dims[d];
        }
        if (stride[3] == 0) c.broadcast |= 1 << s;
    } else if (kind == 1 && c.dims[3] > 1) {  // the outer dimensions permuted
        stride[3] = 1;
        stride[1] = c.dims[3];
        stride[2] = stride[1] * c.dims[1];
        stride[0] = stride[2] * c.dims[2];
    } else {
        stride[3] = 1;
        stride[2] = c.dims[3] + (kind == 3 ? random.integer(0, 3) : 0);
        if (kind == 2) stride[2] = fpga::round_up(c.dims[3], 16);
        stride[1] = stride[2] * c.dims[2];
        stride[0] = stride[1] * c.dims[1];
    }
    if (c.dims[3] == 1 && !output && random.chance(0.5)) c.broadcast |= 1 << s;
    c.stride0[s] = static_cast<int32_t>(stride[0]);
    c.stride1[s] = static_cast<int32_t>(stride[1]);
    c.stride2[s] = static_cast<int32_t>(stride[2]);
    int64_t floats = (c.broadcast >> s) & 1 ? 1 : c.dims[3];
    for (int d = 0; d < 3; d++) floats += (c.dims[d] - 1) * stride[d];
    const int shift = random.chance(0.3) ? random.integer(1, 15) : 0;
    floats += shift;
    c.stream[s] = shift + (output ? where.allocate(floats) : where.allocate_random(floats, random, -2, 2));
}

int64_t address(const pointwise_command& c, int s, const int i[4]) {
    return c.stream[s] + int64_t(i[0]) * c.stride0[s] + int64_t(i[1]) * c.stride1[s] + int64_t(i[2]) * c.stride2[s] +
           ((c.broadcast >> s) & 1 ? 0 : i[3]);
}

constexpr int64_t MOST_ELEMENTS = 40000;

void random_program(tb::report& report, tb::random_source& random, int round) {
    using namespace fpga;
    tb::memory arena, weights, commands;
    pointwise_command c = {};
    c.inputs = random.integer(1, 6);
    c.outputs = random.integer(1, 3);
    do {
        c.dims[3] = random.pick({1, 1, 3, 8, 10, 16, 17, 24, 32, 64, 100, 192, 255, 256, 257, 600, 1031});
        for (int d = 0; d < 3; d++) c.dims[d] = random.pick({1, 1, 2, 3, 7, c.dims[3] > 64 ? 5 : 40});
    } while (int64_t(c.dims[0]) * c.dims[1] * c.dims[2] * c.dims[3] > MOST_ELEMENTS);
    for (int s = 0; s < c.inputs; s++) {
        const bool from_weights = random.chance(0.3);
        c.in_weights |= from_weights << s;
        lay_out(c, s, from_weights ? weights : arena, random, false);
    }
    for (int s = c.inputs; s < c.inputs + c.outputs; s++) lay_out(c, s, arena, random, true);

    program code;
    for (int i = random.integer(0, 6); i > 0; i--) code.constants.push_back(random.real(-2, 2));
    bool set[8] = {};
    const auto operand = [&]() {
        for (;;) {
            const int kind = random.integer(0, 2), r = random.integer(0, 7);
            if (kind == 0 && set[r]) return r;
            if (kind == 1 && !code.constants.empty()) return 32 + random.integer(0, int(code.constants.size()) - 1);
            if (kind == 2) return 16 + random.integer(0, c.inputs - 1);
        }
    };
    const auto any_operation = [&]() {
        return int(random.pick({MICRO_COPY, MICRO_ADD, MICRO_SUB, MICRO_MUL, MICRO_FMA, MICRO_MIN, MICRO_MAX, MICRO_NEG,
                                MICRO_ABS, MICRO_RELU, MICRO_TANH, MICRO_SIGMOID, MICRO_ERF}));
    };
    for (int i = random.integer(0, 20); i > 0; i--) {
        const int a = operand(), b = operand(), third = operand(), to = random.integer(0, 7);
        code.add(any_operation(), to, a, b, third);
        set[to] = true;
        if (random.chance(0.3)) code.add(MICRO_TANH, to, to);  // keeps values small
    }
    for (int s = 0; s < c.outputs; s++) code.add(any_operation(), 16 + c.inputs + s, operand(), operand(), operand());
    code.place(commands, c);

    report.begin("program of " + std::to_string(c.instructions) + " over " + std::to_string(c.dims[0]) + "x" +
                 std::to_string(c.dims[1]) + "x" + std::to_string(c.dims[2]) + "x" + std::to_string(c.dims[3]));
#ifndef __SYNTHESIS__
    bounds extents(4 * commands.size(), 4 * arena.size(), 4 * weights.size());
    pointwise_bounds(c, extents);
    report.check(extents.ok(), extents.message());
#endif
    arena.watch();
    int i[4];
    const auto each_element = [&](auto body) {
        for (i[0] = 0; i[0] < c.dims[0]; i[0]++)
            for (i[1] = 0; i[1] < c.dims[1]; i[1]++)
                for (i[2] = 0; i[2] < c.dims[2]; i[2]++)
                    for (i[3] = 0; i[3] < c.dims[3]; i[3]++) body();
    };
    each_element([&] {
        for (int s = c.inputs; s < c.inputs + c.outputs; s++) arena.allow(address(c, s, i), 1);
    });
    const uint32_t slices = round % 2 ? 3 : 1;
    for (uint32_t slice = 0; slice < slices; slice++)
        report.check(pointwise(c, commands.region(), arena.region(), weights.region(), slice, slices) == STATUS_OK,
                     "status");
    report.check(arena.stray() < 0, "stores outside its outputs at " + std::to_string(arena.stray()));
    each_element([&] {
        double value[64] = {};
        for (int s = 0; s < c.inputs; s++)
            value[16 + s] = ((c.in_weights >> s) & 1 ? weights : arena)[address(c, s, i)];
        for (size_t k = 0; k < code.constants.size(); k++) value[32 + k] = code.constants[k];
        for (size_t k = 0; k < code.words.size(); k += 2) {
            const uint32_t w = code.words[k];
            const double a = value[(w >> 16) & 255], b = value[w >> 24];
            value[(w >> 8) & 255] = reference(w & 255, a, b, value[code.words[k + 1]]);
        }
        for (int s = c.inputs; s < c.inputs + c.outputs; s++)
            report.close(arena[address(c, s, i)], value[16 + s], 1e-5 + 2e-4 * std::fabs(value[16 + s]), "output");
    });
}

void refusals(tb::report& report) {
    for (const uint32_t word : {0x63u | 18 << 8 | 16 << 16, 0x01u | 16 << 8 | 16 << 16, 0x01u | 18 << 8 | 40 << 16}) {
        tb::memory arena, commands;
        pointwise_command c = {};
        program code;
        code.words = {word, 0};
        code.place(commands, c);
        c.inputs = 2;
        c.outputs = 1;
        for (int d = 0; d < 4; d++) c.dims[d] = 1;
        for (int s = 0; s < 3; s++) c.stream[s] = arena.allocate(1);
        report.begin("malformed program");
        arena.watch();
        report.check(fpga::pointwise(c, commands.region(), arena.region(), nullptr, 0, 1) == fpga::STATUS_BAD_OPCODE,
                     "status");
        report.check(arena.stray() < 0, "stores though it refuses");
    }
}

}  // namespace

int main(int argc, char** argv) {
    tb::report report("pointwise");
    tb::random_source random(3);
    every_operation(report);
    every_integer_operation(report);
    refusals(report);
    for (int round = 0; round < tb::share_of(1500, argc, argv); round++) random_program(report, random, round);
    return report.finish();
}
