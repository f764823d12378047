// What the test benches share: a poisoned memory that notices stray stores, random data, comparison with a reference.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "command.hpp"
#include "lib/bounds.hpp"
#include "lib/vector.hpp"

namespace tb {

constexpr float SMALLEST = std::numeric_limits<float>::denorm_min();  // C++14 has no FLT_TRUE_MIN

// How many of a bench's `all` random cases to run: as many percent as its first argument says, all without one.
inline int share_of(int all, int argc, char** argv) {
    const int percent = argc > 1 ? std::atoi(argv[1]) : 100;
    return percent < 100 ? static_cast<int>(int64_t(all) * percent / 100 + 1) : all;
}

// Whether a bench's few large cases run, too, which take seconds as synthesis sees them: not for less than a tenth.
inline bool with_large_cases(int argc, char** argv) { return argc < 2 || std::atoi(argv[1]) >= 10; }

// One generator for a test bench; the seed is fixed so that a failure comes back.
class random_source {
public:
    explicit random_source(uint32_t seed) : engine_(seed) {}
    int integer(int low, int high) { return std::uniform_int_distribution<int>(low, high)(engine_); }
    float real(float low, float high) { return std::uniform_real_distribution<float>(low, high)(engine_); }
    bool chance(double p) { return std::uniform_real_distribution<double>(0, 1)(engine_) < p; }
    template <class T>
    T pick(std::initializer_list<T> from) {
        return *(from.begin() + integer(0, static_cast<int>(from.size()) - 1));
    }

private:
    std::mt19937 engine_;
};

// A region of memory. Everything is poison (a NaN) until set; buffers are 64-byte aligned with poison around them, so
// that a core that reads outside its operands gives NaN, and one that stores where it may not is found by stray().
class memory {
public:
    static constexpr int GUARD = 64;  // floats between two buffers

    memory() : data_(fpga::VEC) { poison(0, data_.size() * fpga::VEC); }

    // Offset of a new buffer of `floats` floats.
    uint32_t allocate(int64_t floats) {
        const size_t begin = size() + GUARD;
        data_.resize((begin + floats + GUARD + fpga::VEC - 1) / fpga::VEC);
        poison(begin - GUARD, size());
        return static_cast<uint32_t>(begin);
    }
    uint32_t allocate_random(int64_t floats, random_source& random, float low = -1, float high = 1) {
        const uint32_t offset = allocate(floats);
        for (int64_t i = 0; i < floats; i++) (*this)[offset + i] = random.real(low, high);
        return offset;
    }

    size_t size() const { return data_.size() * fpga::VEC; }
    fpga::vec16* region() { return data_.data(); }
    const fpga::vec16* region() const { return data_.data(); }
    float& operator[](size_t at) { return reinterpret_cast<float*>(data_.data())[at]; }
    float operator[](size_t at) const { return reinterpret_cast<const float*>(data_.data())[at]; }

    void poison(size_t begin, size_t end) {
        for (size_t i = begin; i < end; i++) std::memcpy(&(*this)[i], &POISON, sizeof(float));
    }

    // The floats that the next run may store to; the rest is remembered as it is now.
    void watch() {
        before_ = data_;
        allowed_.assign(size(), false);
    }
    void allow(size_t at, size_t floats) {
        for (size_t i = at; i < at + floats; i++) allowed_.at(i) = true;
    }
    // Offset of the first float that changed and may not, or -1.
    int64_t stray() const {
        for (size_t i = 0; i < before_.size() * fpga::VEC; i++) {
            const float* old = reinterpret_cast<const float*>(before_.data()) + i;
            const float now = (*this)[i];
            if (!allowed_[i] && std::memcmp(old, &now, sizeof(float)) != 0) return static_cast<int64_t>(i);
        }
        return -1;
    }

private:
    static constexpr uint32_t POISON = 0x7fc0dead;
    std::vector<fpga::vec16> data_;
    std::vector<fpga::vec16> before_;
    std::vector<bool> allowed_;
};

// Counts cases; a failure is printed and remembered.
class report {
public:
    explicit report(const char* name) : name_(name) {}

    void begin(const std::string& description) {
        cases_++;
        description_ = description;
        failed_here_ = false;
    }
    void fail(const std::string& what) {
        if (failed_here_) return;  // one line a case
        failed_here_ = true;
        failures_++;
        std::printf("%s: case %d (%s): %s\n", name_, cases_, description_.c_str(), what.c_str());
    }
    void check(bool condition, const std::string& what) {
        if (!condition) fail(what);
    }
#ifndef __SYNTHESIS__
    // Whether a command's bounds accept the regions that it was made for; they must refuse empty ones.
    template <class COMMAND>
    bool bounded(const COMMAND& c, void (*bounds_of)(const COMMAND&, fpga::bounds&), const memory& arena,
                 const memory& weights) {
        fpga::bounds whole(0, 4 * arena.size(), 4 * weights.size()), none(0, 64, 0);
        bounds_of(c, whole);
        bounds_of(c, none);
        check(whole.ok(), "bounds: " + whole.message());
        check(!none.ok(), "bounds accept regions that are too small");
        return whole.ok();
    }
#endif
    // NaN must meet NaN and infinity the same infinity.
    void close(float got, double expected, double tolerance, const std::string& where) {
        add_to_digest(got);
        if (std::isnan(expected)   ? std::isnan(got)
            : std::isinf(expected) ? got == expected
                                   : std::fabs(got - expected) <= tolerance)
            return;
        char text[160];
        std::snprintf(text, sizeof text, ": got %.9g, expected %.9g within %.3g", got, expected, tolerance);
        fail(where + text);
    }
    int finish() const {
        std::printf("%s: %d cases, %d failures, digest %016llx\n", name_, cases_, failures_,
                    static_cast<unsigned long long>(digest_));
        return failures_ == 0 && cases_ > 0 ? 0 : 1;
    }

private:
    // FNV-1a over the bits of all results, where one NaN is as good as another: two builds that compute alike agree.
    void add_to_digest(float got) {
        uint32_t bits = 0x7fc00000;
        if (!std::isnan(got)) std::memcpy(&bits, &got, sizeof bits);
        digest_ = (digest_ ^ bits) * 0x100000001b3;
    }

    uint64_t digest_ = 0xcbf29ce484222325;
    const char* name_;
    std::string description_;
    int cases_ = 0;
    int failures_ = 0;
    bool failed_here_ = false;
};

// Whether two results have the same bits; one NaN is as good as another.
inline bool same(float a, float b) { return std::memcmp(&a, &b, sizeof a) == 0 || (std::isnan(a) && std::isnan(b)); }

// Runs a core in 1, 3 and 8 slices, which must not change a bit of the results. `each_row(visit)` names the rows of its output,
// by the offset of their first float. They are poisoned before each run, which may change their first `stored` floats and
// nothing else. compare(where) then
// looks at the results.
template <class COMMAND, class CORE, class ROWS, class COMPARE>
void run_sliced(report& report, const COMMAND& c, CORE core, memory& arena, const memory& weights, int stored,
                ROWS each_row, COMPARE compare) {
    std::vector<float> unsliced;
    for (uint32_t slices : {1u, 3u, 8u}) {
        each_row([&](size_t at) { arena.poison(at, at + stored); });
        arena.watch();
        each_row([&](size_t at) { arena.allow(at, stored); });
        for (uint32_t slice = 0; slice < slices; slice++) {
            const uint32_t status = core(c, nullptr, arena.region(), weights.region(), slice, slices);
            report.check(status == fpga::STATUS_OK, "status " + std::to_string(status));
        }
        const int64_t stray = arena.stray();
        report.check(stray < 0, "stray store at float " + std::to_string(stray));
        compare("slices " + std::to_string(slices) + ", ");
        size_t next = 0;
        each_row([&](size_t at) {
            for (int i = 0; i < stored; i++) {
                if (slices == 1)
                    unsliced.push_back(arena[at + i]);
                else if (!same(arena[at + i], unsliced[next++]))
                    report.fail("float " + std::to_string(at + i) + " is another in " + std::to_string(slices) +
                                " slices");
            }
        });
    }
}

// The activations of command.hpp in double precision; NaN stays NaN.
inline double reference_activation(double x, int32_t kind, double a, double b) {
    const auto clamp = [](double v, double low, double high) { return v < low ? low : v > high ? high : v; };
    switch (kind) {
        case fpga::ACT_RELU: return x < 0 ? 0 : x;
        case fpga::ACT_CLAMP: return clamp(x, a, b);
        case fpga::ACT_LEAKY_RELU: return x > 0 ? x : a * x;
        case fpga::ACT_SIGMOID: return 1 / (1 + std::exp(-x));
        case fpga::ACT_TANH: return std::tanh(x);
        case fpga::ACT_SILU: return x / (1 + std::exp(-x));
        case fpga::ACT_GELU: return 0.5 * x * (1 + std::erf(x * std::sqrt(0.5)));
        case fpga::ACT_GELU_TANH: return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
        case fpga::ACT_HARDSWISH: return x * clamp(x + 3, 0, 6) / 6;
        case fpga::ACT_HARDSIGMOID: return clamp(x + 3, 0, 6) / 6;
        case fpga::ACT_ELU: return x > 0 ? x : a * std::expm1(x);
        default: return x;
    }
}

// The activation of a random command, and its limits or slope.
template <class COMMAND>
void random_activation(COMMAND& c, random_source& random) {
    c.activation = random.chance(0.6) ? random.pick({fpga::ACT_NONE, fpga::ACT_RELU, fpga::ACT_CLAMP})
                                      : static_cast<fpga::activation>(random.integer(fpga::ACT_NONE, fpga::ACT_ELU));
    c.act_a = c.activation == fpga::ACT_CLAMP ? random.real(-0.5f, 0) : random.real(0.05f, 1);
    c.act_b = random.real(0, 2);
}

// What a float32 sum of `terms` products may miss by, given the sum of their absolute values, and an activation after.
inline double sum_tolerance(double absolute_sum, double terms) {
    return 6e-8 * (8 + std::sqrt(terms)) * absolute_sum + 2e-6;
}

}  // namespace tb
