#include "cpu.hpp"

#include <sched.h>

namespace card_model {

namespace {

#if defined(__x86_64__)
int level() {
    __builtin_cpu_init();
    const auto has_v2 = [] { return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt"); };
    const auto has_v3 = [] {
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
    };
    const auto has_v4 = [] {
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl");
    };
    if (!has_v2()) return 1;
    if (!has_v3()) return 2;
    return has_v4() ? 4 : 3;
}
#endif

}  // namespace

std::string cpu_level() {
#if defined(__x86_64__)
    const int found = level();
    return found == 1 ? "x86-64" : "x86-64-v" + std::to_string(found);
#elif defined(__aarch64__)
    return "aarch64";
#else
    return "unknown";
#endif
}

bool cpu_runs(const std::string& wanted) {
#if defined(__x86_64__)
    if (wanted == "x86-64") return true;
    const std::string prefix = "x86-64-v";
    if (wanted.compare(0, prefix.size(), prefix) != 0 || wanted.size() != prefix.size() + 1) return false;
    return wanted.back() - '0' <= level();
#else
    return wanted == cpu_level();
#endif
}

unsigned usable_cpus() {
    cpu_set_t mask;
    if (sched_getaffinity(0, sizeof mask, &mask) != 0) return 1;
    const int count = CPU_COUNT(&mask);
    return count > 0 ? static_cast<unsigned>(count) : 1;
}

bool spinning_pays() {
    static const bool several = usable_cpus() > 1;
    return several;
}

}  // namespace card_model
