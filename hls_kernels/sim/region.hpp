// A dataflow region: its processes start when the one that opens it is there, which goes on when the last of them has ended.
#pragma once
#include <algorithm>
#include <cstddef>
#include <exception>
#include <memory>
#include <string>
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

class region : public stall_cause {
public:
    explicit region(const char* name) : name_(name), parent_(self()), unwinding_(std::uncaught_exceptions()) {
        if (parent_.in_loop)
            throw error(parent_.name() + ": the dataflow region '" + name + "' lies in a pipelined loop.");
    }
    region(const region&) = delete;
    region& operator=(const region&) = delete;

    // `call`: the text of a call, whose function's name the process gets.
    template <class F_>
    void run(const char* call, F_ body) {
        if (fibers().failed()) return;  // one of those before has, and the end of the region tells
        std::string name(call);
        name = name.substr(0, name.find('('));
        while (!name.empty() && name.back() == ' ') name.pop_back();
        if (!fibers().at_root()) name = parent_.name() + "/" + name;
        processes_.push_back(std::make_unique<process>(name));
        process& p = *processes_.back();
        alive_++;
        p.interruptible = fibers().shuffled();
        p.now = p.counts.first = p.counts.commands.back().first = parent_.now;
        p.counts.process = name;
        p.set_body([this, &p, body] {
            detail::current = &p;
            const leave at_end{*this};
            body();
            if (!COUNTING) return;
            p.counts.last = p.now;
            p.end_command();
        });
        fibers().start(p);
        detail::current = &parent_;
    }

    ~region() noexcept(false) {
        const bool unwinding = std::uncaught_exceptions() > unwinding_;
        if (unwinding && alive_) fibers().fail(std::make_exception_ptr(cancelled()));
        while (alive_) suspend(parent_, *this, 0, false);
        const bool failed = fibers().failed();
        if (COUNTING && !failed) count();
        processes_.clear();
        if (!failed) return;
        if (!fibers().at_root()) {
            if (!unwinding) throw cancelled();
            return;
        }
        const std::exception_ptr failure = fibers().take_failure();
        if (!unwinding) std::rethrow_exception(failure);
    }

    std::string cause(int) const override { return "processes of " + name_; }
    std::string waiting(int) const override { return "for the processes of " + name_; }

private:
    struct leave {
        region& of;
        ~leave() {
            if (--of.alive_ == 0) fibers().wake(of.parent_);
        }
    };
    void count() {
        cycle_t end = parent_.now;
        for (const std::unique_ptr<process>& p : processes_) {
            end = std::max(end, p->counts.last);
            ended_processes().push_back(std::move(p->counts));
        }
        parent_.wait_until(end, *this, 0);
        parent_.forget_addresses();
    }

    std::string name_;
    process& parent_;
    std::vector<std::unique_ptr<process>> processes_;
    std::size_t alive_ = 0;
    int unwinding_;
};

// Sequential code: so many cycles go by.
inline void take_cycles(const code_contract& contract) { self().now += contract.cycles; }

}  // namespace sim
