// What the simulator's benches share: checks that are counted, and said once at the end.
#pragma once
#include <cstdio>
#include <sstream>
#include <string>

#include "sim/dataflow.hpp"

namespace bench {

inline int cases = 0, failures = 0;

template <class T, class U>
void equal(const std::string& what, const T& got, const U& want) {
    cases++;
    if (got == static_cast<T>(want)) return;
    failures++;
    std::ostringstream text;
    text << what << ": " << got << ", not " << want;
    std::puts(text.str().c_str());
}
inline void holds(const std::string& what, bool condition) {
    cases++;
    if (condition) return;
    failures++;
    std::printf("%s does not hold\n", what.c_str());
}
// The error that `run` ends with, or nothing.
template <class F>
std::string error_of(F run) {
    try {
        run();
    } catch (const sim::error& e) {
        return e.what();
    }
    return "";
}
inline void says(const std::string& what, const std::string& text, const std::string& part) {
    cases++;
    if (text.find(part) != std::string::npos) return;
    failures++;
    std::printf("%s: expected '%s' in: %s\n", what.c_str(), part.c_str(), text.c_str());
}
inline int done() {
    std::printf("%d cases, %d failures\n", cases, failures);
    return failures ? 1 : 0;
}
// What a process waited because of `cause`.
inline sim::cycle_t stalled(const sim::report& r, const std::string& process, const std::string& cause) {
    const sim::process_count* p = r.process(process);
    if (p)
        for (const sim::stall_count& s : p->stalls())
            if (s.cause == cause) return s.cycles;
    return 0;
}

}  // namespace bench
