// The control of a process: where in its schedule it is. It turns what the program does into events of its lane.
#pragma once
#include <algorithm>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../loop.hpp"
#include "network.hpp"
#include "schedule.hpp"

namespace sim::cosim {

class loop;
class control;

// A place of the source from which a stream is used; line 0: not known, as of an operator.
struct site {
    unsigned line;
    const char* file;
    static constexpr site here(unsigned line = __builtin_LINE(), const char* file = __builtin_FILE()) {
        return {line, file};
    }
};

// The network of the program, and the processes that wait for it.
struct simulation {
    network net;
    std::vector<process*> waiting;  // by lane
    std::map<std::string, std::uint32_t> lanes, fifos, ports;
    std::vector<control*> controls;
    std::uint64_t unknown_accesses = 0;

    // Wakes the processes whose lanes went on.
    void wake() {
        for (std::size_t n = 0; n < net.resumed.size(); n++) {
            const std::uint32_t lane = net.resumed[n];
            if (lane < waiting.size() && waiting[lane]) fibers().wake(*std::exchange(waiting[lane], nullptr));
        }
        net.resumed.clear();
    }
    std::uint32_t lane_of(const std::string& key, const std::string& name, const std::string& region) {
        const auto known = lanes.find(key);
        if (known != lanes.end()) return known->second;
        const std::uint32_t made = net.new_lane(name, region);
        waiting.resize(net.lanes.size(), nullptr);
        return lanes[key] = made;
    }
};
inline simulation& whole() {
    static simulation* of_program = new simulation;  // lives until the report is written at exit
    return *of_program;
}

class control : public stall_cause {
public:
    std::uint32_t lane = 0;
    const part* own = nullptr;
    const scope* code = nullptr;  // sequential code that the process is in
    cycle base = 0;               // static time of sequential code
    cycle straight = 0;           // states of `code` that have passed
    bool state_used = false;      // whether the state that it is in has an access
    loop* inner = nullptr;
    std::unique_ptr<loop> runs;       // of a pipelined function: the loop over its runs, once the first has begun
    std::vector<std::uint32_t> ends;  // tokens of its runs
    std::map<std::uint32_t, std::uint32_t>
        open_regions;                               // ends of processes that nobody has waited for so far, by lane
    std::map<std::uint32_t, std::uint32_t> blocks;  // by process that reads its arrays: the end of the run before last
    std::uint32_t wants = UINT32_MAX;               // FIFO whose value it waits for
    site wants_at{0, ""};
    cycle written = UNKNOWN;  // static time of its last write
    cycle used = 0,
          not_before = 0;  // of its last access to a stream; accesses behind an `ap_wait` are not in front of it

    void post(std::uint32_t token, std::uint16_t lag) { add({base, token, kind::POST, question::EMPTY, lag}); }
    void await(std::uint32_t token, std::uint16_t lag) { add({base, token, kind::AWAIT, question::EMPTY, lag}); }
    void add(const event& e) { whole().net.add(lane, e); }
    void reach(cycle floor) {
        whole().net.raise_floor(lane, floor);
        whole().wake();
    }
    control();
    ~control();
    // A run begins: at the base, or of a pipelined function so many cycles behind the run before. The token is of its
    // start.
    void begin_run(std::uint32_t token);
    // A run ends, with a token; the next one of a pipelined function does not wait for that.
    void end_run(std::uint32_t token);
    // The rest of the states of sequential code.
    void finish_code();
    // The state in front of a loop has ended when the loop begins.
    void first_state() {
        if (inner_pipeline() || !code || !code->states) return;
        straight++;
        base++;
        state_used = false;
    }
    bool inner_pipeline() const;
    // Processes of regions that have been left must end before what follows.
    void await_regions();
    // Waits until all of its events have a time.
    void flush();
    // Keeps a process from running far ahead of its lane.
    void hold_back();
    cycle access_time(unsigned line, char way, cycle& last);
    std::int64_t ask(std::uint32_t fifo, question what, unsigned line, char way, cycle& last);

    std::string cause(int) const override { return "its time"; }
    std::string waiting(int) const override;

private:
    static constexpr std::size_t AHEAD = 1024;
    void pause(int why);
};

inline control* current() { return static_cast<control*>(self().control); }

// A loop of the source, as long as it runs.
class loop {
public:
    loop(unsigned line, const char* file);
    // The runs of a pipelined function.
    loop(control& c, const loop_schedule& plan);
    loop(const loop&) = delete;
    loop& operator=(const loop&) = delete;
    ~loop() noexcept(false);

    // In front of each test of the condition.
    bool test() {
        if (!c_) return true;
        if (!plan_) return pass();
        if (plan_->how == mode::SEQUENTIAL) {
            if (tests_++) c_->finish_code(), c_->straight = 0;
            c_->reach(c_->base);
        } else if (plan_->how == mode::PIPELINED && sub_ == 0) {
            pipeline_->at_ = pipeline_->begin_ + pipeline_->iterations_ * plan_->ii;
            pipeline_->ii_ = plan_->ii;
            pipeline_->body_ = plan_;
            c_->reach(pipeline_->at_);
        }
        return true;
    }
    // Behind a test that has let an iteration begin.
    bool iterate() {
        if (!c_ || !plan_ || plan_->how != mode::PIPELINED) return true;
        if (sub_ == 0) {
            pipeline_->iterations_++;
            for (const std::uint32_t port : pipeline_->beats_)
                c_->add({pipeline_->at_, port, kind::BEAT, question::EMPTY, 0});
            c_->hold_back();
        }
        if (++sub_ == plan_->factor) sub_ = 0;
        return true;
    }
    // For loops that test at their end, or not at all.
    bool begin() { return test() && iterate(); }

    cycle next() const { return begin_ + iterations_ * plan_->ii; }
    cycle end() const { return at_ + plan_->depth - 1; }
    loop* pipeline() { return pipeline_; }
    loop* outer() const { return outer_; }
    void used(cycle at) { last_ = std::max(last_, at); }
    cycle at() const { return at_; }
    const scope* body() const { return body_; }

private:
    static constexpr cycle UNROLLED = 4096;

    mode how() const { return plan_ ? plan_->how : mode::PIPELINED; }
    const loop_schedule* find() const;
    // A loop without a schedule is one that was unrolled or removed. One that goes on and on is neither, and takes time.
    bool pass();
    void enter();
    void leave();
    std::uint32_t port_of(const burst& one) const;

    control* c_;
    unsigned line_;
    loop* outer_ = nullptr;
    loop* pipeline_ = nullptr;  // the loop whose pipeline this one is part of
    const loop_schedule* plan_ = nullptr;
    bool of_runs_ = false;
    const scope* saved_code_ = nullptr;
    cycle saved_straight_ = 0;
    // Of a pipeline.
    cycle begin_ = 0, at_ = 0, iterations_ = 0, tests_ = 0, last_ = 0;
    int ii_ = 1, sub_ = 0;
    const scope* body_ = nullptr;
    std::vector<std::uint32_t> beats_, writes_;
};

// What lies behind it comes so many cycles later than the accesses to streams in front of it.
inline void wait_cycles(int cycles) {
    if (control* c = current()) c->not_before = std::max(c->used, c->base) + cycles;
}

}  // namespace sim::cosim
