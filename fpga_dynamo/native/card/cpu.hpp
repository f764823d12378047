// Which instructions this CPU has, by the x86-64 psABI's micro-architecture levels and extensions of these for int8, and how
// many CPUs may be used.
#pragma once
#include <string>

namespace card_model {

std::string cpu_level();                   // "x86-64-v3"; on other architectures the compiler's name for it
bool cpu_runs(const std::string& wanted);  // "x86-64-v4+amx"; false for another architecture's or what this CPU lacks
unsigned usable_cpus();                    // the affinity mask's count, at least 1

bool spinning_pays();  // there is another CPU for whom we wait

inline void cpu_relax() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

}  // namespace card_model
