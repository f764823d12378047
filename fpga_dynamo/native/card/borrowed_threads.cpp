#include "borrowed_threads.hpp"

#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <ctime>
#include <mutex>
#include <vector>

#include "cpu.hpp"
#include "ert_command.hpp"

namespace card_model {

namespace {

constexpr int64_t GLANCE_NS = 1000;   // in which a thread that spins uses time that its clock shows
constexpr int64_t FRESH_NS = 100000;  // in which few stop to spin

// What compilers call for `#pragma omp parallel`, and two functions of OpenMP's own interface.
struct openmp {
    void (*parallel)(void (*body)(void*), void* context, unsigned threads, unsigned flags) = nullptr;
    int (*most_threads)() = nullptr;
    int (*is_parallel)() = nullptr;
};

template <typename Function>
void look_up(void* library, const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(dlsym(library, name));
}

// Of the library that PyTorch is linked to, if this process has loaded it: there may be several OpenMPs in it.
const openmp* openmp_of_torch() {
    static openmp found;
    static const bool complete = [] {
        void* torch = dlopen("libtorch_cpu.so", RTLD_NOW | RTLD_NOLOAD);
        if (!torch) return false;
        look_up(torch, "GOMP_parallel", found.parallel);
        look_up(torch, "omp_get_max_threads", found.most_threads);
        look_up(torch, "omp_in_parallel", found.is_parallel);
        return found.parallel && found.most_threads && found.is_parallel;
    }();
    return complete ? &found : nullptr;
}

pid_t thread_id() { return static_cast<pid_t>(syscall(SYS_gettid)); }

// The time that a thread of this process has used, in ns; -1 if there is no such thread.
int64_t used_ns(pid_t thread) {
    constexpr unsigned OF_A_THREAD = 6;  // Linux: its own clock, exact while it runs
    const auto clock = static_cast<clockid_t>(~static_cast<unsigned>(thread) << 3 | OF_A_THREAD);
    timespec used{};
    if (clock_gettime(clock, &used) != 0) return -1;
    return used.tv_sec * int64_t{1000000000} + used.tv_nsec;
}

// The threads that the first thread's parallel regions have besides it. Only that thread asks.
class team {
public:
    // How many of them run at this moment, or did a moment ago.
    unsigned running(const openmp& omp) {
        const int64_t now = monotonic_ns();
        if (now - glanced_at_ < FRESH_NS && size_ == omp.most_threads()) return running_;
        if (size_ != omp.most_threads()) meet(omp);
        running_ = look();
        if (running_) {
            for (const int64_t end = now + GLANCE_NS; monotonic_ns() < end;) cpu_relax();
            running_ = look();
        }
        glanced_at_ = now;
        return running_;
    }

private:
    struct other {
        pid_t id;
        int64_t used;
    };

    void meet(const openmp& omp) {
        others_.clear();
        size_ = omp.most_threads();
        omp.parallel(
            [](void* context) {
                if (thread_id() == getpid()) return;
                team& all = *static_cast<team*>(context);
                std::lock_guard lock(all.mutex_);
                all.others_.push_back({thread_id(), 0});
            },
            this, 0, 0);
    }

    // How many have used time since the last look: one that sleeps has not, which the first of two looks tells.
    unsigned look() {
        unsigned used = 0;
        for (other& o : others_) {
            const int64_t now = used_ns(o.id);
            if (now < 0) size_ = 0;  // it has ended: another number of threads was asked for, and then this one again
            used += now > o.used;
            o.used = now;
        }
        return used;
    }

    std::mutex mutex_;  // of others_ while they are met
    std::vector<other> others_;
    int size_ = 0;  // with the first thread, as they were met
    unsigned running_ = 0;
    int64_t glanced_at_ = 0;
};

std::atomic<uint64_t> loans{0};

}  // namespace

bool threads_to_borrow(unsigned count) {
    static thread_local const bool is_first = thread_id() == getpid();
    if (!is_first) return false;
    const openmp* omp = openmp_of_torch();
    if (!omp || omp->is_parallel() || omp->most_threads() <= static_cast<int>(count)) return false;
    static team first_threads;
    return first_threads.running(*omp) >= count;
}

void on_borrowed_threads(void (*body)(void*), void* context) {
    loans.fetch_add(1, std::memory_order_relaxed);
    openmp_of_torch()->parallel(body, context, 0, 0);
}

uint64_t borrowed_runs() { return loans.load(std::memory_order_relaxed); }

}  // namespace card_model
