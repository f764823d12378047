// A dataflow region: its processes start when the one that opens it is there, which goes on when the last of them has ended.
#pragma once
#include <algorithm>
#include <cstddef>
#include <exception>
#include <initializer_list>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "loop.hpp"
#include "memory.hpp"
#include "process.hpp"

namespace sim {

// Processes of this thread that have ended, until take_report.
inline std::vector<process_count>& ended_processes() {
    static thread_local std::vector<process_count> of_thread;
    return of_thread;
}

// What was counted on this thread since the last call, and by the ports and banks of `where`.
inline report take_report(const memory* where = nullptr) {
    report r;
    r.processes = std::exchange(ended_processes(), {});
    cycle_t last = 0;
    for (const process_count& p : r.processes) {
        r.first = &p == &r.processes.front() ? p.first : std::min(r.first, p.first);
        last = std::max(last, p.last);
    }
    r.cycles = last - r.first;
    if (where) where->count(r);
    return r;
}

// Sets the time of this thread back to 0, between two runs that have nothing to do with each other. Banks remember cycles: a
// new run takes a new `memory`.
inline void restart() {
    process& root = self();
    if (!fibers().at_root()) throw error("sim::restart() is for the thread itself, not for a process.");
    root.now = 0;
    ended_processes().clear();
}

// After a run that was broken off by a signal or a jump: the thread is as if nothing had run.
inline void abandon() {
    fibers().abandon();
    detail::current = nullptr;
    process& root = detail::root();
    root.in_loop = nullptr;
    root.in_flight.clear();
    detail::current = &root;
}

// The name of what processes share by turns; null for streams, and structures of streams, which nobody can copy.
template <class T_>
constexpr const char* array_name(const T_&, const char* name) {
    return std::is_copy_constructible<std::remove_all_extents_t<T_>>::value ? name : nullptr;
}

class region : public stall_cause {
public:
    explicit region(const char* name) : name_(name), parent_(self()), unwinding_(std::uncaught_exceptions()) {
        if (parent_.in_loop)
            throw error(parent_.name() + ": the dataflow region '" + name + "' lies in a pipelined loop.");
    }
    region(const region&) = delete;
    region& operator=(const region&) = delete;

    // `call`: the text of a call, whose function's name the process gets. `arrays`: names of variables that it shares with
    // others by turns (null: no variable); it starts when those before it that have the same names have ended.
    template <class F_>
    void run(const char* call, F_ body, std::initializer_list<const char*> arrays = {}) {
        if (fibers().failed()) return;  // one of those before has, and the end of the region tells
        std::string name(call);
        name = name.substr(0, name.find('('));
        while (!name.empty() && name.back() == ' ') name.pop_back();
        if (!fibers().at_root()) name = parent_.name() + "/" + name;
        processes_.push_back(std::make_unique<process>(name));
        process& p = *processes_.back();
        for (const char* array : arrays)
            if (array) p.arrays.emplace_back(array);
        alive_++;
        p.interruptible = fibers().shuffled();
        p.now = p.counts.first = p.counts.commands.back().first = parent_.now;
        p.counts.process = name;
        p.set_body([this, &p, body] {
            detail::current = &p;
            const leave at_end{*this, p};
            wait_for_arrays(p);
            body();
            if (!COUNTING) return;
            p.counts.last = p.now;
            p.end_command();
        });
        fibers().start(p);
        detail::current = &parent_;
    }

    // A process that runs again and again, and ends with the region: when all others have ended and it can do no more.
    template <class F_>
    void task(const char* call, F_ body) {
        run(call, [this, body] {
            self().endless = true;
            if (--alive_ == 0) fibers().wake(parent_);
            for (;;) body();
        });
    }

    ~region() noexcept(false) { join(); }

    // Waits for the processes, which the end of the scope does otherwise.
    void join() {
        if (std::exchange(joined_, true)) return;
        const bool unwinding = std::uncaught_exceptions() > unwinding_;
        if (unwinding && alive_) fibers().fail(std::make_exception_ptr(cancelled()));
        while (alive_) suspend(parent_, *this, ALL, false);
        end_tasks();
        const bool failed = fibers().failed();
        if (COUNTING && !failed) count();
        processes_.clear();
        if (failed) fibers().throw_failure(unwinding);
    }

    std::string cause(int) const override { return "processes of " + name_; }
    std::string waiting(int why) const override {
        if (why == ALL) return "for the processes of " + name_;
        const std::size_t number = static_cast<std::size_t>(why);
        return "for the end of " + processes_[number]->name() + ", which has an array that it reads";
    }

private:
    static constexpr int ALL = -1;
    struct leave {
        region& of;
        process& p;
        ~leave() {
            p.ended = true;
            for (const std::unique_ptr<process>& other : of.processes_)
                if (!other->arrays.empty()) fibers().wake(*other);
            if (!p.endless && --of.alive_ == 0) fibers().wake(of.parent_);
        }
    };
    void wait_for_arrays(process& p) {
        if (p.arrays.empty()) return;
        for (std::size_t i = 0; processes_[i].get() != &p; i++) {
            if (!shares_array(p, *processes_[i])) continue;
            while (!processes_[i]->ended) suspend(p, *this, static_cast<int>(i));
            if (COUNTING) p.now = std::max(p.now, processes_[i]->now);
        }
        p.counts.first = p.counts.commands.back().first = p.now;
    }
    static bool shares_array(const process& one, const process& other) {
        for (const std::string& name : one.arrays)
            if (std::find(other.arrays.begin(), other.arrays.end(), name) != other.arrays.end()) return true;
        return false;
    }
    // Tasks go on while one of them can; where the region has nothing but tasks, also while one waits for another kernel.
    void end_tasks() {
        const auto is_task = [](const std::unique_ptr<process>& p) { return p->endless; };
        if (std::none_of(processes_.begin(), processes_.end(), is_task)) return;
        const bool only_tasks = std::all_of(processes_.begin(), processes_.end(), is_task);
        parent_.set_polling(true);  // or tasks that wait for another kernel would not sleep
        while (!fibers().failed() && fibers().others_ready(only_tasks)) give_way(parent_);
        parent_.set_polling(false);
        for (const std::unique_ptr<process>& p : processes_)
            if (p->endless) fibers().cancel(*p);
        while (std::any_of(processes_.begin(), processes_.end(), [](const auto& p) { return !p->ended; }))
            give_way(parent_);
    }
    void count() {
        cycle_t end = parent_.now;
        for (const std::unique_ptr<process>& p : processes_) {
            end = std::max(end, p->counts.last);
            ended_processes().push_back(std::move(p->counts));
        }
        parent_.wait_until(end, *this, ALL);
        parent_.forget_addresses();
    }

    std::string name_;
    process& parent_;
    std::vector<std::unique_ptr<process>> processes_;
    std::size_t alive_ = 0;  // processes that have not ended, without tasks
    bool joined_ = false;
    int unwinding_;
};

// Sequential code: so many cycles go by.
inline void take_cycles(const code_contract& contract) { self().now += contract.cycles; }

}  // namespace sim
