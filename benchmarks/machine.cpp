// What this machine can do at most: fused multiply-adds from registers, and reads from each level of memory.
// machine THREADS: one line of JSON, in FLOP/s and bytes/s of all threads together; the best of several tries.
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

namespace {

#if defined(__AVX512F__)
constexpr size_t VECTOR_BYTES = 64;
#elif defined(__AVX__)
constexpr size_t VECTOR_BYTES = 32;
#else
constexpr size_t VECTOR_BYTES = 16;
#endif
typedef float vec __attribute__((vector_size(VECTOR_BYTES)));
constexpr int LANES = VECTOR_BYTES / sizeof(float);
constexpr int CHAINS = 12;  // independent ones: two units with four to five cycles of latency are kept busy
constexpr int TRIES = 5;
constexpr double SECONDS = 0.05;  // of a try, about

volatile float sink;

float sum(const vec& v) {
    float total = 0;
    for (int i = 0; i < LANES; ++i) total += v[i];
    return total;
}

void multiply_add(long rounds) {
    vec accumulators[CHAINS], a, b;
    for (int i = 0; i < LANES; ++i) a[i] = 0.999f, b[i] = 1e-3f * static_cast<float>(i);
    for (int c = 0; c < CHAINS; ++c) accumulators[c] = b * static_cast<float>(c + 1);  // equal ones would be merged
    for (long r = 0; r < rounds; ++r)
        for (int c = 0; c < CHAINS; ++c) accumulators[c] = accumulators[c] * a + b;
    float total = 0;
    for (const vec& accumulator : accumulators) total += sum(accumulator);
    sink = total;
}

void read(const std::vector<float>& memory, long rounds) {
    const vec* values = reinterpret_cast<const vec*>(
        (reinterpret_cast<uintptr_t>(memory.data()) + VECTOR_BYTES - 1) / VECTOR_BYTES * VECTOR_BYTES);
    const size_t count = (memory.size() * sizeof(float) / VECTOR_BYTES - 1) / 8 * 8;
    vec accumulators[8] = {};
    for (long r = 0; r < rounds; ++r)
        for (size_t i = 0; i < count; i += 8)
            for (int c = 0; c < 8; ++c) accumulators[c] += values[i + c];
    float total = 0;
    for (const vec& accumulator : accumulators) total += sum(accumulator);
    sink = total;
}

// Seconds until all threads have done the work, which they begin together; the best of TRIES.
double best(unsigned threads, const std::function<void(unsigned)>& work) {
    double least = 1e300;
    for (int i = 0; i < TRIES; ++i) {
        std::chrono::steady_clock::time_point began;
        std::barrier start(threads, [&]() noexcept { began = std::chrono::steady_clock::now(); });
        std::vector<std::thread> others;
        const auto run = [&](unsigned thread) {
            start.arrive_and_wait();
            work(thread);
        };
        for (unsigned t = 1; t < threads; ++t) others.emplace_back(run, t);
        run(0);
        for (std::thread& other : others) other.join();
        least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
    }
    return least;
}

// How many rounds make a try of SECONDS.
long calibrated(const std::function<void(long)>& work) {
    for (long rounds = 1;; rounds *= 2) {
        const auto began = std::chrono::steady_clock::now();
        work(rounds);
        const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
        if (seconds > SECONDS / 4) return std::max(1l, static_cast<long>(static_cast<double>(rounds) * SECONDS / seconds));
    }
}

double flops(unsigned threads) {
    const long rounds = calibrated(multiply_add);
    const double seconds = best(threads, [&](unsigned) { multiply_add(rounds); });
    return 2.0 * LANES * CHAINS * static_cast<double>(rounds) * threads / seconds;
}

double bandwidth(unsigned threads, size_t bytes) {
    std::vector<std::vector<float>> memory(threads, std::vector<float>(bytes / sizeof(float), 1.0f));
    const long rounds = calibrated([&](long r) { read(memory[0], r); });
    const double seconds = best(threads, [&](unsigned thread) { read(memory[thread], rounds); });
    return static_cast<double>(bytes) * static_cast<double>(rounds) * threads / seconds;
}

size_t cache(int name, size_t otherwise) {
    const long bytes = sysconf(name);
    return bytes > 0 ? static_cast<size_t>(bytes) : otherwise;
}

}  // namespace

int main(int argc, char** argv) {
    const unsigned threads = argc > 1 ? static_cast<unsigned>(std::max(1, std::atoi(argv[1]))) : 1;
    const size_t l1 = cache(_SC_LEVEL1_DCACHE_SIZE, 32 << 10), l2 = cache(_SC_LEVEL2_CACHE_SIZE, 1 << 20);
    const size_t l3 = cache(_SC_LEVEL3_CACHE_SIZE, 16 << 20);
    const size_t in_l3 = std::max(std::min(2 * l2, l3 / 2 / threads), l2);
    const size_t beyond = std::clamp<size_t>(4 * l3 / threads, 64 << 20, 512 << 20);
    std::printf("{\"threads\": %u, \"flops\": %.4g, \"bandwidth\": {", threads, flops(threads));
    std::printf("\"L1\": %.4g, ", bandwidth(threads, l1 / 2));
    std::printf("\"L2\": %.4g, ", bandwidth(threads, l2 / 2));
    std::printf("\"L3\": %.4g, ", bandwidth(threads, in_l3));
    std::printf("\"memory\": %.4g}}\n", bandwidth(threads, beyond));
}
