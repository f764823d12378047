// Fails in the way that it is told to, or writes that number.
#include <cassert>
#include <stdexcept>

extern "C" void fail(int* out, int how) {
    if (how == 1) assert(out == nullptr && "the kernel's own words");
    if (how == 2) out[1 << 20] = 1;  // behind the end of every buffer of the tests
    if (how == 3) throw std::runtime_error("a kernel threw");
    volatile int forever = 1;
    while (how == 4 && forever) {}
    out[0] = how;
}
