#include "simulator.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <queue>

namespace scheduling {

namespace {

constexpr double idle = -std::numeric_limits<double>::infinity();
constexpr double least_remaining = 1e-6;  // keeps a busy PE's availability in the future

// splitmix64: a number for each (seed, instance, task), so that a task takes as long under every policy.
uint64_t mixed(uint64_t word) {
    word += 0x9e3779b97f4a7c15ull;
    word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9ull;
    word = (word ^ (word >> 27)) * 0x94d049bb133111ebull;
    return word ^ (word >> 31);
}

double uniform(uint64_t word) { return (static_cast<double>(word >> 11) + 0.5) * 0x1p-53; }

double factor(const run_options& options, int instance, int task) {
    if (options.spread <= 0 && options.tail <= 0) return 1.0;
    const uint64_t word = mixed(mixed(options.seed) ^
                                (static_cast<uint64_t>(instance) << 32 | static_cast<uint32_t>(task)));
    const double radius = std::sqrt(-2 * std::log(uniform(mixed(word ^ 1))));
    const double normal = radius * std::cos(2 * 3.14159265358979323846 * uniform(mixed(word ^ 2)));
    const bool long_one = options.tail > 0 && uniform(mixed(word ^ 3)) < options.tail;
    return std::exp(options.spread * normal) * (long_one ? 10.0 : 1.0);
}

// begin, moved, computed: of a task whose transfers need a channel.
enum class event_kind { arrival, begin, moved, computed, end, decision, tick };

struct event {
    double time;
    uint64_t order;
    event_kind kind;
    int subject;
    // Of what happens at once, arrivals come first, then what was foreseen first: the order of runtime/scheduling/simulate.py.
    bool operator>(const event& other) const {
        const bool arrives = kind == event_kind::arrival, other_arrives = other.kind == event_kind::arrival;
        if (time != other.time) return time > other.time;
        return arrives != other_arrives ? other_arrives : order > other.order;
    }
};

struct bound_task {
    instance* owner;
    int task;
    double expected;
};

struct slot {
    bound_task running{nullptr, 0, 0.0};
    double since = 0, seconds = 0, expected_end = 0, ended = idle;
    double inward = 0, computing = 0, outward = 0;  // the parts of `seconds`, if transfers need a channel
    bool has_channel = false;
    std::deque<bound_task> queue;
    double backlog = 0;
};

class simulation {
public:
    simulation(const system_model& system, const std::vector<std::shared_ptr<const graph_model>>& applications,
               const std::vector<arrival>& arrivals, const run_options& options)
        : system_(system),
          options_(options),
          policy_(make_policy(options.policy, system, options.seed)),
          instances_(arrivals.size()),
          slots_(system.pes()),
          available_(system.pes(), idle) {
        for (size_t i = 0; i < arrivals.size(); ++i) {
            instance& one = instances_[i];
            one.graph = applications.at(arrivals[i].application).get();
            one.number = static_cast<int>(i);
            one.application = arrivals[i].application;
            one.arrival = arrivals[i].time;
            if (!options.deadlines.empty()) one.deadline = one.arrival + options.deadlines.at(one.application);
            if (i && arrivals[i].time < arrivals[i - 1].time) throw std::invalid_argument("arrivals must be sorted");
        }
        result_.busy.assign(system.pes(), 0.0);
    }

    run_result run() {
        if (!instances_.empty()) push(instances_[0].arrival, event_kind::arrival, 0);
        while (!events_.empty()) {
            const double now = events_.top().time;
            while (!events_.empty() && events_.top().time == now) {  // what happens at once is decided on at once
                const event next = events_.top();
                events_.pop();
                handle(next, now);
            }
            if (!deciding_) decide(now);
        }
        if (policy_->waiting())
            throw std::runtime_error("policy '" + options_.policy + "' left " + std::to_string(policy_->waiting()) +
                                     " tasks while all processing elements were idle");
        for (const instance& one : instances_) {
            result_.started.push_back(one.started);
            result_.ended.push_back(one.ended);
        }
        return std::move(result_);
    }

private:
    void push(double time, event_kind kind, int subject) { events_.push({time, order_++, kind, subject}); }

    void handle(const event& next, double now) {
        switch (next.kind) {
            case event_kind::arrival: arrive(next.subject, now); break;
            case event_kind::begin: request(next.subject, now); break;
            case event_kind::moved: compute(next.subject, now); break;
            case event_kind::computed: request(next.subject, now); break;
            case event_kind::end: end(next.subject, now); break;
            case event_kind::decision: apply(now); break;
            case event_kind::tick: ticking_ = false; break;
        }
    }

    void changed(double now) {
        if (!dirty_)
            dirty_ = true, dirty_since_ = now;
        else if (!policy_->waiting())
            dirty_since_ = now;  // until then there was nothing to decide
    }

    void ready(instance& one, int task, double now) {
        changed(now);
        policy_->add(one, task);
    }

    void arrive(int number, double now) {
        instance& one = instances_[number];
        if (number + 1 < static_cast<int>(instances_.size()))
            push(instances_[number + 1].arrival, event_kind::arrival, number + 1);
        const graph_model& graph = *one.graph;
        one.left = graph.tasks();
        if (!one.left) {
            one.started = one.ended = now;
            return;
        }
        one.waiting.resize(graph.tasks());
        for (int task = 0; task < graph.tasks(); ++task)
            one.waiting[task] = graph.before.begin[task + 1] - graph.before.begin[task];
        if (graph.crosses) one.where.assign(graph.tasks(), host_memory);
        policy_->arrive(one);
        for (const int task : graph.roots) ready(one, task, now);
    }

    void end(int pe, double now) {
        slot& here = slots_[pe];
        if (here.has_channel) release(pe, now);
        const bound_task done = here.running;
        instance& one = *done.owner;
        result_.busy[pe] += now - here.since;
        if (options_.trace) result_.tasks.push_back({one.number, done.task, pe, here.since, now});
        // now - since is not it to the last bit, where no transfer has waited.
        const double seconds = options_.channels ? now - here.since : here.seconds;
        policy_->observe(one, done.task, system_.kind_of[pe], seconds);
        here.running.owner = nullptr;
        here.ended = now;
        if (here.queue.empty()) {
            available_[pe] = idle;
        } else {
            const bound_task following = here.queue.front();
            here.queue.pop_front();
            here.backlog = here.queue.empty() ? 0.0 : here.backlog - following.expected;
            start(pe, following, now);
        }
        changed(now);
        const graph_model& graph = *one.graph;
        if (!one.where.empty()) one.where[done.task] = static_cast<int8_t>(system_.memory_of[system_.kind_of[pe]]);
        for (int at = graph.after.begin[done.task]; at < graph.after.begin[done.task + 1]; ++at)
            if (--one.waiting[graph.after.items[at]] == 0) ready(one, graph.after.items[at], now);
        if (--one.left == 0) {
            one.ended = result_.end = now;
            std::vector<int>().swap(one.waiting);
            std::vector<int8_t>().swap(one.where);
        }
    }

    void start(int pe, const bound_task& next, double now, double wake = 0.0) {
        slot& here = slots_[pe];
        instance& one = *next.owner;
        const int kind = system_.kind_of[pe];
        const double begin = now + wake;
        if (one.started < 0 || begin < one.started) one.started = begin;
        here.running = next;
        here.since = begin;
        here.expected_end = now + next.expected;
        available_[pe] = here.expected_end + here.backlog;
        const graph_model& graph = *one.graph;
        const int at = next.task * graph.kinds + kind;
        const double crossing = one.crossing_to(next.task, system_.memory_of[kind]);
        const double by = factor(options_, one.number, next.task);
        here.seconds = (graph.total(next.task, kind) + crossing) * by;
        if (!options_.channels) {
            push(begin + here.seconds, event_kind::end, pe);
            return;
        }
        here.inward = (graph.transfer[at] - graph.outward[at] + crossing) * by;
        here.computing = graph.stated[at] * by;
        here.outward = graph.outward[at] * by;
        push(begin, here.inward > 0 ? event_kind::begin : event_kind::moved, pe);
    }

    // The next transfer of a task: it starts, or waits until a channel is free.
    void request(int pe, double now) {
        if (busy_channels_ == options_.channels) {
            waiting_.push_back(pe);
            return;
        }
        ++busy_channels_;
        transfer(pe, now);
    }

    void transfer(int pe, double now) {
        slot& here = slots_[pe];
        here.has_channel = true;
        const bool is_inward = here.inward > 0;
        push(now + (is_inward ? here.inward : here.outward), is_inward ? event_kind::moved : event_kind::end, pe);
    }

    // The transfer of a PE has ended: its channel goes to the one that has waited longest.
    void release(int pe, double now) {
        slots_[pe].has_channel = false;
        if (waiting_.empty()) {
            --busy_channels_;
            return;
        }
        const int next = waiting_.front();
        waiting_.pop_front();
        transfer(next, now);
    }

    // The operands of a task are there.
    void compute(int pe, double now) {
        slot& here = slots_[pe];
        if (here.has_channel) release(pe, now);
        here.inward = 0;
        push(now + here.computing, here.outward > 0 ? event_kind::computed : event_kind::end, pe);
    }

    // A task that is late is expected to take as long again as it is late: busy PEs are never available now.
    void expect_overdue(double now) {
        for (int pe = 0; pe < system_.pes(); ++pe) {
            const slot& here = slots_[pe];
            if (!here.running.owner) continue;
            const double remaining = here.expected_end - now;
            if (remaining < least_remaining)
                available_[pe] = now + std::max(-remaining, least_remaining) + here.backlog;
        }
    }

    void decide(double now) {
        if (!dirty_ || !policy_->waiting()) return;
        if (options_.cost.period > 0 && !at_period(now)) return;
        expect_overdue(now);
        const size_t queued = policy_->waiting();
        result_.most_waiting = std::max(result_.most_waiting, queued);
        decided_.clear();
        const double evaluations = policy_->decide(now, available_, decided_);
        const decision_cost& cost = options_.cost;
        const double seconds = cost.round + cost.evaluation * evaluations + cost.assignment * decided_.size();
        result_.rounds += 1;
        result_.assignments += decided_.size();
        result_.evaluations += evaluations;
        result_.deciding += seconds;
        if (options_.trace)
            result_.decisions.push_back({now, seconds, static_cast<int>(queued), static_cast<int>(decided_.size())});
        dirty_ = false;
        begun_ = now;
        since_ = dirty_since_;
        if (seconds > 0) {
            deciding_ = true;
            push(now + seconds, event_kind::decision, 0);
        } else {
            apply(now);
        }
    }

    // Whether a round may begin now; else there will be a tick at the next multiple of the period.
    bool at_period(double now) {
        const double period = options_.cost.period;
        const double nearest = std::round(now / period) * period;
        if (std::abs(nearest - now) <= 1e-9 * period + 1e-12 * now) return true;
        if (!ticking_) {
            ticking_ = true;
            push(std::ceil(now / period) * period, event_kind::tick, 0);
        }
        return false;
    }

    void apply(double now) {
        deciding_ = false;
        policy_->applied(now - since_);
        for (const assignment& one : decided_) {
            slot& here = slots_[one.pe];
            const bound_task next{one.owner, one.task,
                                  policy_->estimate(*one.owner, one.task, system_.kind_of[one.pe])};
            if (!here.running.owner) {
                start(one.pe, next, now, here.ended == begun_ ? 0.0 : options_.cost.wake);
            } else {
                here.queue.push_back(next);
                here.backlog += next.expected;
                available_[one.pe] += next.expected;
            }
        }
        decided_.clear();
    }

    const system_model& system_;
    const run_options& options_;
    std::unique_ptr<policy> policy_;
    std::vector<instance> instances_;
    std::vector<slot> slots_;
    std::vector<double> available_;
    std::priority_queue<event, std::vector<event>, std::greater<>> events_;
    uint64_t order_ = 0;
    int busy_channels_ = 0;
    std::deque<int> waiting_;  // PEs whose next transfer waits for a channel
    bool deciding_ = false, dirty_ = false, ticking_ = false;
    double begun_ = 0;                    // of the last round
    double dirty_since_ = 0, since_ = 0;  // when something first changed: since the last round, and before it
    std::vector<assignment> decided_;
    run_result result_;
};

}  // namespace

run_result run(const system_model& system, const std::vector<std::shared_ptr<const graph_model>>& applications,
               const std::vector<arrival>& arrivals, const run_options& options) {
    return simulation(system, applications, arrivals, options).run();
}

}  // namespace scheduling
