#include "cpu.hpp"

#include <sched.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

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

// Whether the CPU has an extension that xclbin_build/toolchain/isa.py names, of a level.
bool has_extension(const std::string& name, int of_level) {
    unsigned a = 0, b = 0, c = 0, d = 0, more = 0;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
    unsigned unused[3];
    if (a >= 1) __get_cpuid_count(7, 1, &more, &unused[0], &unused[1], &unused[2]);
    const auto bit = [](unsigned from, int number) { return (from >> number & 1) != 0; };
    const bool vnni = bit(c, 11), bf16 = vnni && bit(more, 5), vbmi = bf16 && bit(c, 1);
    const bool amx = vbmi && bit(d, 22) && bit(d, 24) && bit(d, 25);
    if (of_level == 3) return name == "vnni" && bit(more, 4);
    if (of_level != 4) return false;
    return (name == "vnni" && vnni) || (name == "bf16" && bf16) || (name == "vbmi" && vbmi) || (name == "amx" && amx);
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
    const std::string prefix = "x86-64-v", of_level = wanted.substr(0, wanted.find('+'));
    if (of_level.compare(0, prefix.size(), prefix) != 0 || of_level.size() != prefix.size() + 1) return false;
    const int needed = of_level.back() - '0';
    if (needed > level()) return false;
    return wanted == of_level || has_extension(wanted.substr(of_level.size() + 1), needed);
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
