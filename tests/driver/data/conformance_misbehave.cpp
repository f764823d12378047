// Of the conformance suite. what = 0: does what it should, 1: never ends, 2: crashes, 3: sleeps for `ms` first.
#include <unistd.h>

#include <cstdint>

extern "C" void misbehave(int* out, int what, int ms) {
    volatile int forever = what == 1;
    while (forever) {
    }
    volatile uintptr_t nowhere = 16;
    if (what == 2) *reinterpret_cast<volatile int*>(nowhere) = 1;
    if (what == 3) usleep(ms * 1000);
    out[0] = 1;
}
