// Test bench of the vector side on floats. Its exponential is compared with libm's. Random lists of commands in both
// schedules must give the same bits, and are compared with plain loops in long double.
//
//     tb [PROGRAMS [SEED]]       so many lists of one to four commands, from that seed on
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>

#include "../../memory_ports.hpp"
#include "../../tb/tensors.hpp"
#include "../check.hpp"
#include "../cpu.hpp"

namespace {

using namespace bench;
using engine::vector_command;

constexpr float INFINITE = std::numeric_limits<float>::infinity();

std::vector<line_t> exponentials() {
    std::vector<line_t> lines(engine::EXPONENT_LINES, line_t());
    for (int i = 0; i < 256; i++)
        engine::set_bits32(lines[static_cast<std::size_t>(i / 16)], i % 16,
                           static_cast<uint32_t>(std::llrint(std::exp(-i / 256.0) * (1 << 27))));
    return lines;
}

// The exponential's largest error, in units in the last place of float32, over distances of all sizes; -1 if one is no number.
double worst_exponential() {
    const std::vector<line_t> table = exponentials();
    const auto entry = [&](int i) { return engine::bits32_of(table[static_cast<std::size_t>(i / 16)], i % 16); };
    const auto of = [&](float v) { return engine::exponential(v, entry); };
    if (of(0.0f) != 1.0f || of(-0.0f) != 1.0f || of(-1e-40f) != 1.0f) return -1;
    if (of(-INFINITE) != 0 || of(-88.0f) != 0 || of(-128.0f) != 0 || of(-3e38f) != 0) return -1;
    if (!std::isnan(of(std::nanf("")))) return -1;
    double worst = 0;
    for (uint32_t bits = 0x2d000000; bits < 0x42ae0000; bits += 1001) {  // -7e-12 to -87
        const float v = -engine::float_of_bits(bits), found = of(v);
        const long double exact = expl(static_cast<long double>(v));
        int exponent;
        frexpl(exact, &exponent);
        worst = std::fmax(worst, std::fabs(static_cast<double>(ldexpl(found - exact, 24 - exponent))));
    }
    return worst;
}

struct matrix {
    int rows, channels, heads[2];
    uint32_t at;
    int32_t head[2];  // lines to the next
    int producer;
    bool wide = false;  // float32 for a bfloat16 engine, a line for each pixel
};

class list {
public:
    explicit list(uint64_t seed) : maps(seed * 2 + 1), parameters(seed * 2 + 2) {}

    region maps, parameters;

    int size() const { return static_cast<int>(commands_.size()); }
    std::vector<line_t> lines() const {
        std::vector<line_t> all(commands_.size() * 4, line_t());
        for (std::size_t i = 0; i < commands_.size(); i++)
            std::memcpy(static_cast<void*>(&all[4 * i]), &commands_[i], sizeof(vector_command));
        return all;
    }
    void add_random(random_source& random) {
        const matrix in = some_map(random);
        vector_command c = {};
        c.opcode = engine::ENGINE_VECTOR;
        c.slices = 1;
        c.operation = in.wide ? engine::VECTOR_SOFTMAX : random.pick({engine::VECTOR_SOFTMAX, engine::VECTOR_NORM});
        c.other = engine::NO_OPERAND;
        c.low = -128;
        c.high = 127;
        c.channels = in.channels;
        c.pixels = in.rows;
        c.input = in.at;
        c.input_after = in.producer < 0 ? 0 : size() - in.producer;
        c.flags = (in.wide ? engine::VECTOR_WIDE : 0) |
                  (c.operation == engine::VECTOR_SOFTMAX && random.chance(0.3) ? engine::VECTOR_CAUSAL : 0);
        matrix out = in;
        out.producer = size();
        out.wide = false;
        if (in.wide || !random.chance(0.15)) place(out);  // else in place
        c.output = out.at;
        for (int d = 0; d < 2; d++) {
            c.heads[d] = in.heads[d];
            c.input_head[d] = in.head[d];
            c.output_head[d] = out.head[d];
        }
        c.row_scale = 1.0f;
        c.epsilon = 1.0f;
        if (c.operation == engine::VECTOR_SOFTMAX) {
            c.params = parameters.put(exponentials());
        } else {
            c.row_scale = 1.0f / static_cast<float>(in.channels);
            c.epsilon = random.chance(0.5) ? 1e-5f : 1e-12f;
            std::vector<line_t> params(static_cast<std::size_t>(in.channels + 15) / 16 * 2, line_t());
            for (line_t& line : params)
                for (int k = 0; k < 16; k++)
                    engine::set_bits32(line, k, engine::bits_of(static_cast<float>(random.real(-2, 2))));
            c.params = parameters.put(params);
        }
        c.group_lines = random.integer(1, 24);
        while (c.group_lines > 1 && engine::refusal(c)) c.group_lines--;
        if (const char* why = engine::refusal(c)) {
            std::printf("vector: a random command %s\n", why);
            std::abort();
        }
        for (matrix& m : maps_)
            if (m.at == out.at) m.producer = out.producer;  // in place
        maps_.push_back(out);
        commands_.push_back(c);
    }
    void run_cpu(std::vector<line_t>& memory, uint32_t slices) {
        for (const vector_command& c : commands_) run_cpu(c, memory, slices);
    }
    // Each command's results against plain loops over what it finds in memory; a sentence about the first that is wrong.
    std::string errors(std::vector<line_t> memory) {
        for (std::size_t i = 0; i < commands_.size(); i++) {
            const std::vector<line_t> before = memory;
            run_cpu(commands_[i], memory, 1);
            const std::string wrong = errors(commands_[i], before, memory);
            if (!wrong.empty()) return "command " + std::to_string(i) + ": " + wrong;
        }
        return "";
    }

private:
    void run_cpu(const vector_command& c, std::vector<line_t>& memory, uint32_t slices) {
        const engine::cpu_vector cpu(c, memory.data(), parameters.lines().data());
        for (uint32_t slice = 0; slice < slices; slice++) cpu.run(slice, slices);
    }
    void place(matrix& m) {
        const int32_t one = static_cast<int32_t>(engine::map_lines(m.rows, m.channels)) * (m.wide ? engine::BEAT : 1);
        m.head[1] = one;
        m.head[0] = one * m.heads[1];
        m.at = maps.allocate(int64_t{m.heads[0]} * m.head[0]);
    }
    matrix some_map(random_source& random) {
        if (!maps_.empty() && random.chance(0.6))
            return maps_[static_cast<std::size_t>(random.integer(0, static_cast<int>(maps_.size()) - 1))];
        matrix m = {};
        m.rows = random.pick({1, 2, 3, 4, 5, 7, 8, 13, 16, 31, 49});
        m.channels = random.pick({1, 2, 15, 16, 17, 32, 40, 64, 100, 129});
        if (random.chance(0.2)) m.rows = random.integer(1, 80);
        m.heads[0] = random.pick({1, 1, 1, 2});
        m.heads[1] = random.pick({1, 1, 2, 3});
        m.producer = -1;
        m.wide = engine::WIDE && random.chance(0.4);
        place(m);
        for (int h = 0; h < m.heads[0] * m.heads[1]; h++)
            for (int row = 0; row < m.rows; row++) fill(m, h, row, random);
        return m;
    }
    element_t& element(std::vector<line_t>& memory, uint32_t line, int rows, int row, int k) const {
        return reinterpret_cast<element_t*>(memory.data() + line)[engine::map_index(rows, row, k)];
    }
    // Element k of a row of the input of a command.
    static double input_of(std::vector<line_t>& memory, uint32_t line, int rows, int row, int k, bool wide) {
        const int64_t at = engine::map_index(rows, row, k);
        const line_t* const from = memory.data() + line;
        if (wide) return engine::float_of_bits(engine::bits32_of(from[at / 16], static_cast<int>(at % 16)));
        return number_of(reinterpret_cast<const element_t*>(from)[at]);
    }
    // A row of numbers of one kind; what fills its last block are infinities, which nobody may look at.
    void fill(const matrix& m, int head, int row, random_source& random) {
        const int kind = random.integer(0, 11);
        const double size = kind == 1 ? std::exp(random.real(-80, 80)) : kind == 2 ? 1e-3 : kind == 3 ? 40 : 4;
        const double middle = kind == 4 ? random.real(-1e4, 1e4) : kind == 5 ? 1000 : 0;
        const double same = random.real(-1e6, 1e6);
        for (int k = 0; k < (m.channels + 15) / 16 * 16; k++) {
            double x = middle + size * random.real(-1, 1);
            if (kind == 6) x = same;
            if (kind == 7) x *= std::exp2(random.integer(-60, 20));
            if (kind == 8 && random.chance(0.5)) x = -INFINITE;
            if (kind == 9) x = -INFINITE;
            if (kind == 10 && random.chance(0.1)) x = random.chance(0.5) ? INFINITE : std::nan("");
            if (k >= m.channels) x = INFINITE;
            const uint32_t at = m.at +
                                static_cast<uint32_t>(head / m.heads[1] * m.head[0] + head % m.heads[1] * m.head[1]);
            if (!m.wide) {
                element(maps.lines(), at, m.rows, row, k) = element_from(x);
                continue;
            }
            const int64_t place = engine::map_index(m.rows, row, k);
            engine::set_bits32(maps.lines()[at + static_cast<std::size_t>(place / 16)], static_cast<int>(place % 16),
                               engine::bits_of(static_cast<float>(x)));
        }
    }
    std::string errors(const vector_command& c, std::vector<line_t> before, std::vector<line_t> after) {
        for (int h = 0; h < c.heads[0] * c.heads[1]; h++)
            for (int row = 0; row < c.pixels; row++) {
                const int h0 = h / c.heads[1], h1 = h % c.heads[1];
                const uint32_t from = c.input + static_cast<uint32_t>(h0 * c.input_head[0] + h1 * c.input_head[1]);
                const uint32_t to = c.output + static_cast<uint32_t>(h0 * c.output_head[0] + h1 * c.output_head[1]);
                std::vector<long double> x, y, slack;
                const bool causal = (c.flags & engine::VECTOR_CAUSAL) != 0, wide = (c.flags & engine::VECTOR_WIDE) != 0;
                for (int k = 0; k < c.channels; k++) {
                    const double key = input_of(before, from, c.pixels, row, k, wide);
                    x.push_back(causal && k > row ? key - INFINITE : key);
                }
                c.operation == engine::VECTOR_SOFTMAX ? softmax(x, y, slack) : norm(c, x, y, slack);
                for (int k = 0; k < (c.channels + 15) / 16 * 16; k++) {
                    const double got = number_of(element(after, to, c.pixels, row, k));
                    const std::size_t i = static_cast<std::size_t>(k);
                    const bool exists = k < c.channels;
                    if (exists && std::isinf(static_cast<double>(slack[i]))) continue;  // float32's range is left
                    const long double wanted = exists ? y[i] : 0;
                    // A rounding to bfloat16 beside the errors of float32.
                    const long double rounding = engine::ELEMENT_BYTES == 2 ? 0x1.01p-8L : 0;
                    const long double most = exists ? fabsl(wanted) * rounding + slack[i] : 0;
                    if (std::isnan(got) ? std::isnan(static_cast<double>(wanted)) : fabsl(got - wanted) <= most)
                        continue;
                    char text[300];
                    std::snprintf(
                        text, sizeof text,
                        "operation %d, flags %d, %d x %d, head %d, row %d, channel %d: %.9g instead of %.9Lg +- %.3Lg",
                        c.operation, c.flags, c.pixels, c.channels, h, row, k, got, wanted, most);
                    return text;
                }
            }
        return "";
    }
    static void softmax(const std::vector<long double>& x, std::vector<long double>& y,
                        std::vector<long double>& slack) {
        long double greatest = -INFINITE, sum = 0;
        for (const long double v : x) greatest = v > greatest ? v : greatest;
        for (const long double v : x) sum += expl(v - greatest);
        for (const long double v : x) {
            y.push_back(expl(v - greatest) / sum);
            // A distance has an error of its size, which is one of the exponential in its own.
            const long double roundings = (fminl(greatest - v, 128) + 16 + static_cast<long double>(x.size()) / 16) *
                                          0x1p-24L;
            slack.push_back(0x1p-126L + fabsl(y.back()) * roundings);
        }
    }
    void norm(const vector_command& c, const std::vector<long double>& x, std::vector<long double>& y,
              std::vector<long double>& slack) {
        long double sum = 0, squares = 0, most = 0;
        bool alike = true;
        for (const long double v : x) {
            alike = alike && v == x[0];
            sum += v;
            most = fmaxl(most, fabsl(v));
        }
        const long double n = c.channels, mean = sum / n;
        for (const long double v : x) squares += (v - mean) * (v - mean);
        const long double scale = 1 / sqrtl(squares / n + c.epsilon);
        // Of elements that are alike the mean is exact.
        const long double roundings = (16 + n / 16) * 0x1p-24L, of_mean = alike ? 0 : most * roundings;
        // The mean's own error shows where a row's spread is less than that.
        const long double scale_error = roundings + fmaxl(of_mean * of_mean * scale * scale, of_mean * scale * 0.01L);
        for (std::size_t k = 0; k < x.size(); k++) {
            const auto number = [&](std::size_t line) {
                return static_cast<long double>(engine::float_of_bits(
                    engine::bits32_of(parameters.lines()[c.params + k / 16 * 2 + line], static_cast<int>(k % 16))));
            };
            const long double z = (x[k] - mean) * scale, gamma = number(0), beta = number(1);
            y.push_back(z * gamma + beta);
            slack.push_back(fabsl(gamma) * (of_mean * scale + fabsl(z) * scale_error) + 0x1p-22L * fabsl(beta) +
                            0x1p-22L * fabsl(z * gamma));
            if (most > 1e18L) slack.back() = std::isnan(static_cast<double>(y.back())) ? 0 : INFINITE;
        }
    }

    std::vector<vector_command> commands_;
    std::vector<matrix> maps_;
};

// Runs a list in both schedules; a sentence about what is wrong.
std::string check(list& l, random_source& random) {
    std::vector<line_t> hardware = l.maps.lines(), cpu = l.maps.lines(), parameters = l.parameters.lines();
    try {
        sim::fibers().shuffle(random.chance(0.5) ? 0 : static_cast<uint64_t>(random.integer(1, 1 << 30)));
        std::vector<line_t> lines = l.lines();
        engine::memory_ports ports(lines.data(), parameters.data(), hardware.data());
        ports.bind(lines.size(), parameters.size(), hardware.size());
        ports.run(static_cast<uint32_t>(l.size()));
    } catch (const sim::error& e) {
        return std::string("hardware schedule: ") + e.what();
    }
    l.run_cpu(cpu, static_cast<uint32_t>(random.pick({1, 1, 2, 3})));
    // All of memory is compared, but for the status record: nothing but the results may have changed.
    for (std::size_t i = 1; i < cpu.size(); i++)
        if (std::memcmp(&hardware[i], &cpu[i], sizeof(line_t)) != 0)
            return "the schedules differ in line " + std::to_string(i);
    return l.errors(l.maps.lines());
}

}  // namespace

int main(int argc, char** argv) {
    const int lists = argc > 1 ? std::atoi(argv[1]) : 300;
    const int seed = argc > 2 ? std::atoi(argv[2]) : 1;
    int failures = 0, commands = 0;
    const double ulp = worst_exponential();
    if (ulp < 0 || ulp > 1.1) {
        failures++;
        std::printf("vector: the exponential is off by %g units in the last place\n", ulp);
    }
    for (int i = 0; i < lists && failures < 10; i++) {
        random_source random(static_cast<uint64_t>(seed + i));
        list l(static_cast<uint64_t>(seed + i));
        const int count = random.integer(1, 4);
        for (int k = 0; k < count; k++) l.add_random(random);
        commands += l.size();
        const std::string wrong = check(l, random);
        if (wrong.empty()) continue;
        failures++;
        std::printf("vector: list %d: %s\n", seed + i, wrong.c_str());
    }
    std::printf("vector %d lanes: %d cases, %d failures; %d commands, exponential within %.2f ulp\n",
                engine::VECTOR_LANES, lists, failures, commands, ulp);
    return failures != 0;
}
