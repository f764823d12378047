// Of the conformance suite. what = 0: does what it should; 1: never ends; 3: sleeps for `ms` first; 22: writes out[ms]; the
// others go wrong.
#include <pthread.h>
#include <unistd.h>

#include <cassert>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <new>
#include <stdexcept>
#include <vector>

struct base;
[[gnu::noipa]] void call(base* object);

struct base {
    base() { call(this); }  // while no derived class is there yet
    virtual ~base() = default;
    virtual void pure() = 0;
};
struct derived : base {
    void pure() override {}
};
struct other : base {
    void pure() override {}
};

void call(base* object) { object->pure(); }

namespace {

std::mutex mutex;

struct odd {};  // no std::exception

void throws() { throw std::logic_error("it went too far"); }
void throws_nothing() noexcept { throws(); }

struct thrower {
    ~thrower() { throws(); }
};

void misbehaves(int what) {
    volatile uintptr_t nowhere = 16;
    volatile size_t much = SIZE_MAX / 4;
    volatile int zero = 0;
    const int rows = -what;
    switch (what) {
        case 2: *reinterpret_cast<volatile int*>(nowhere) = 1; break;
        case 4: throw std::runtime_error("no such row");
        case 5: throw 7;
        case 6: throw odd();
        case 7: *static_cast<volatile char*>(::operator new(much)) = 1; break;
        case 8: std::vector<int>(3).at(much) = 1; break;
        case 9: assert(rows > 0); break;
        case 10: std::abort();
        case 11: std::exit(3);
        case 12: _exit(4);
        case 13: std::_Exit(5);
        case 14: std::quick_exit(6);
        case 15: pthread_exit(nullptr);
        case 16: std::terminate();
        case 17: throws_nothing(); break;
        case 18: { const thrower one; } break;
        case 19: raise(SIGABRT); break;
        case 20: { const derived one; const other two; } break;
        case 21: nowhere = nowhere / static_cast<uintptr_t>(zero); break;
    }
}

}  // namespace

extern "C" void misbehave(int* out, int what, int ms) {
    std::unique_lock lock(mutex, std::defer_lock);
    if (what == 0 || (what >= 4 && what <= 8)) lock.lock();  // an exception lets go of it, or the next run would hang
    volatile int forever = what == 1;
    while (forever) {
    }
    if (what == 3) usleep(ms * 1000);
    if (what == 22) out[ms] = 7;
    misbehaves(what);
    out[0] = 1;
}
