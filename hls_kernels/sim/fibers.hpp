// Processes of a dataflow region as fibers: one thread runs them all, one at a time, each until it has to wait.
//
// Results do not depend on the order in which they run, because processes meet in streams alone, each of which has one
// writer and one reader. `shuffle` runs them in another order, for tests of exactly that.
#pragma once
#include <atomic>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "stack_switch.hpp"

namespace sim {

// A mistake in how kernels use streams, ports or loops; a deadlock is one of them.
struct error : std::runtime_error {
    using std::runtime_error::runtime_error;
};
struct deadlock : error {
    using error::error;
};
// Thrown through the processes that are left when one has failed, so that their destructors run.
struct cancelled {};

// What a fiber may wait for.
struct wait_source {
    // The rest of "NAME waits ..."; `why` is what suspend was given.
    virtual std::string waiting(int why) const = 0;

protected:
    ~wait_source() = default;
};

class fiber {
public:
    explicit fiber(std::string name) : name_(std::move(name)) {}
    virtual ~fiber() = default;
    fiber(const fiber&) = delete;
    fiber& operator=(const fiber&) = delete;

    const std::string& name() const { return name_; }
    uint64_t id() const { return id_; }
    virtual std::string also_waits() const { return ""; }                   // more for the report of a deadlock
    void set_body(std::function<void()> body) { body_ = std::move(body); }  // before it starts
    // While it asks again and again for something that no fiber of this thread gives it.
    void set_polling(bool polling) { polling_ = polling; }

private:
    friend class scheduler;
    enum class state { ready, running, waiting, ended };
    std::string name_;
    std::function<void()> body_;
    std::unique_ptr<stack_memory> stack_;  // none for the root, which runs on the thread's own
    context context_;
    state state_ = state::ready;
    const wait_source* waits_on_ = nullptr;
    int why_ = 0;
    uint64_t id_ = 0;
    bool polling_ = false, cancelled_ = false;
};

// Something that can go on when no fiber can: a memory that has requests to grant.
struct idle_work {
    virtual ~idle_work() = default;
    virtual bool advance() = 0;  // false: nothing to do
};

// The fibers of one thread.
class scheduler {
public:
    fiber& current() { return *current_; }
    bool at_root() const { return current_ == root_; }
    bool failed() const { return failure_ != nullptr; }
    // Whether there is no fiber but the thread's own.
    bool alone() const { return live_.size() < 2; }
    // Whether others can go on; polling: or ask once more for what comes from elsewhere.
    bool others_ready(bool polling) const {
        for (const fiber* f : ready_)
            if (polling || !f->polling_) return true;
        return false;
    }
    // Ends a fiber when it runs the next time: what it has on its stack is destroyed.
    void cancel(fiber& f) {
        f.cancelled_ = true;
        wake(f);
    }

    // The fiber that stands for the thread itself.
    void set_root(fiber& root) {
        root_ = current_ = &root;
        root.state_ = fiber::state::running;
        root.id_ = next_id();
        live_.push_back(&root);
    }
    // Runs a new fiber at once, until it waits for the first time; so what its body refers to is still what it was.
    void start(fiber& f) {
        f.id_ = next_id();
        f.stack_ = std::make_unique<stack_memory>();
        f.context_.prepare(*f.stack_, &scheduler::enter);
        live_.push_back(&f);
        current_->state_ = fiber::state::ready;
        ready_.push_front(current_);
        go_to(f);
    }
    // Forgets all fibers but the thread's own: a run was left by a jump, and what it had on its stacks is lost.
    void abandon() {
        if (!root_) return;
        current_ = root_;
        root_->state_ = fiber::state::running;
        root_->waits_on_ = nullptr;
        ready_.clear();
        live_.assign(1, root_);
        idle_ = nullptr;
        failure_ = nullptr;
    }
    void set_idle_work(idle_work* work) { idle_ = work; }
    idle_work* get_idle_work() const { return idle_; }
    const fiber* live(uint64_t id) const {
        for (const fiber* f : live_)
            if (f->id_ == id) return f;
        return nullptr;
    }

    // Leaves the current fiber until `wake`; it must look again whether it can go on. `may_throw` is false where a region
    // ends, which has to wait for its processes even when one has failed.
    void suspend(const wait_source& thing, int why, bool may_throw = true) {
        if (may_throw) throw_if_failed();
        fiber& me = *current_;
        me.waits_on_ = &thing;
        me.why_ = why;
        me.state_ = fiber::state::waiting;
        run_another();
        me.waits_on_ = nullptr;
        if (may_throw) throw_if_failed();
        if (may_throw && me.cancelled_) throw cancelled();
    }
    void wake(fiber& f) {
        if (f.state_ != fiber::state::waiting) return;
        f.state_ = fiber::state::ready;
        ready_.push_back(&f);
    }
    // Lets others run first, and among them those that are new.
    void yield() {
        fiber& me = *current_;
        me.state_ = fiber::state::ready;
        ready_.push_back(&me);
        run_another();
        if (me.cancelled_) throw cancelled();
    }
    // The first failure is the one that is told; all fibers run again to be unwound.
    void fail(std::exception_ptr why) {
        if (!failure_) failure_ = std::move(why);
        for (fiber* f : live_) wake(*f);
    }
    // At the end of a region that has failed, whose processes have ended: the region around it is unwound too, and the
    // thread gets the failure. unwinding: an exception is on its way already.
    void throw_failure(bool unwinding) {
        if (!at_root()) {
            if (!unwinding) throw cancelled();
            return;
        }
        const std::exception_ptr failure = take_failure();
        if (!unwinding) std::rethrow_exception(failure);
    }

    // Tests: run fibers in another order, and let them be interrupted at any stream operation. 0: as usual.
    void shuffle(uint64_t seed) { random_ = seed; }
    bool shuffled() const { return random_ != 0; }
    uint64_t random() {  // xorshift64
        random_ ^= random_ << 13;
        random_ ^= random_ >> 7;
        random_ ^= random_ << 17;
        return random_;
    }
    uint64_t switches() const { return switches_; }

private:
    // Of no other fiber of the program: a stream that outlives a run may be used on another thread.
    static uint64_t next_id() {
        static std::atomic<uint64_t> last{0};
        return last.fetch_add(1, std::memory_order_relaxed) + 1;
    }
    std::exception_ptr take_failure() { return std::exchange(failure_, nullptr); }
    void throw_if_failed() {
        if (!failure_) return;
        if (!at_root()) throw cancelled();
        std::rethrow_exception(live_.size() == 1 ? take_failure() : failure_);  // a region's end takes it otherwise
    }
    void run_another(bool last = false) {
        while (ready_.empty())
            if (!idle_ || !idle_->advance()) fail(std::make_exception_ptr(deadlock(deadlock_report())));
        if (random_) std::swap(ready_.front(), ready_[random() % ready_.size()]);
        fiber* next = ready_.front();
        ready_.pop_front();
        go_to(*next, last);
    }
    void go_to(fiber& next, bool last = false) {
        fiber& from = *current_;
        next.state_ = fiber::state::running;
        if (&next == &from) return;
        current_ = &next;
        switches_++;
        from.context_.switch_to(next.context_, came_from_, last);
    }
    std::string deadlock_report() const {
        std::ostringstream text;
        text << "deadlock: no process can go on.";
        for (const fiber* f : live_)
            if (f->waits_on_)
                text << "\n  " << f->name_ << " waits " << f->waits_on_->waiting(f->why_) << f->also_waits();
        return text.str();
    }
    static void enter();
    void run_current();

    fiber* root_ = nullptr;
    fiber* current_ = nullptr;
    context* came_from_ = nullptr;
    std::deque<fiber*> ready_;
    std::vector<fiber*> live_;
    idle_work* idle_ = nullptr;
    std::exception_ptr failure_;
    uint64_t random_ = 0, switches_ = 0;
};

inline scheduler& fibers() {
    static thread_local scheduler of_thread;
    return of_thread;
}

inline void scheduler::enter() {
    scheduler& of_thread = fibers();
    of_thread.current_->context_.entered(*of_thread.came_from_);
    of_thread.run_current();
    std::abort();  // a fiber that has ended does not run
}

inline void scheduler::run_current() {
    fiber& me = *current_;
    std::exception_ptr failure;
    try {
        me.body_();
    } catch (const cancelled&) {
    } catch (...) {
        failure = std::current_exception();
    }
    me.body_ = nullptr;
    me.state_ = fiber::state::ended;
    for (std::size_t i = 0; i < live_.size(); i++)
        if (live_[i] == &me) live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(i));
    if (failure) fail(std::exchange(failure, nullptr));
    run_another(true);
}

}  // namespace sim
