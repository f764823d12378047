// Least remaining work first, bound late: the default policy.
//
// Each kind of PE serves applications in the order of  key = arrival + slowdown * left. `left` is the work of the tasks
// that this kind runs cheapest and that are not yet bound. A task's work is mostly its seconds divided by the number of
// PEs of the kind, and in part the kind's price (below). Only work on the same kind counts, because only that can delay
// another application there. A network of long convolutions delays nobody on a core by its short tasks.
//
// So of two applications that arrive together the shorter one goes first, which reduces the mean response. An
// application is never overtaken by one that arrives later than slowdown times its own work, which bounds the response
// of long ones. (Boost scheduling: first come first served, with earlier arrival times for short ones. A slowdown of
// infinity is shortest remaining work first, 0 is first come first served.)
//
// The slowdown depends on how common the application's size is. It is COMMON_SLOWDOWN if at least COMMON of the recent
// arrivals have as much work, RARE_SLOWDOWN if at most RARE have, and linear between. A long and rare application waits
// for the many short ones; these are served nearly in the order of arrival. So the 95th percentile gains what the
// longest applications lose.
//
// Within an application the task with the longest path to the end goes first. Path lengths are compared in steps of a
// third of the critical path. Equal tasks keep the order of the program, which feeds all kinds.
//
// A task is bound to a PE only if the PE is free now or will be soon: within HORIZON times the recent latency of a
// decision. Otherwise the task reserves its place in the plan and stays ready. So no queue delays a shorter application,
// and no PE idles while a decision is made.
//
// Kinds have prices: the value of a second of a PE of the kind in a full system. Prices are shares of a second of the
// whole system; their sum over all PEs is 1. They are the dual of a linear program, which serves the present traffic
// with the least time of the busiest kind; multiplicative weights solve it. The cost of a kind is the later finish plus
// PRICE times its extra price over the cheapest kind, for each other application in flight, since these end so much
// later. In an empty system tasks go where they finish first, in a full one where they leave most to the others.
//
// If two kinds have equal prices, the linear program still has shares for each, but prices cannot express them. Two
// corrections do. First, a kind that got more than its share costs up to three tenths more, and one that got less up to
// three twentieths less. The factor is ten times the deviation, so shares are kept to a few hundredths, the slack of a
// system near its capacity. The surcharge applies only as far as another kind is as fast for the task: if a unit is
// twenty times as fast as a core, the core would pay twenty seconds for each second that the unit saves. Second, a kind
// is charged for ready tasks that only it can run and that wait for it, also of the same application. Otherwise a core
// would take short transforms from idle units, while the products that these units wait for are left.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "estimates.hpp"
#include "model.hpp"
#include "policy.hpp"

namespace scheduling {

class least_work {
public:
    static constexpr double COMMON_SLOWDOWN = 7.0, COMMON = 0.10, RARE_SLOWDOWN = 60.0, RARE = 0.05;
    static constexpr double PRICE = 10.0, LONE_PRICE = 8.0, HORIZON = 15.0, SMOOTHING = 0.1;
    static constexpr int LOOK = 1024;  // tasks that a decision looks at, at most

    struct bound {
        int frame, task, pe;
        uint64_t tag;
        bool last;  // of its frame, whose handle is no longer valid then
    };

    explicit least_work(std::shared_ptr<const system_model> system);
    least_work(const least_work&) = delete;
    least_work& operator=(const least_work&) = delete;

    int add_graph(std::shared_ptr<const graph_model> graph);
    void forget_graph(int graph);  // no instance of which is in flight
    // An instance of `graph`, of which `share` of the work is still to do. Returns its handle.
    int arrive(int graph, double arrival, double share = 1.0);
    void leave(int handle);  // it is over, whatever of it is still ready
    // `task` of the instance is ready; crossing: by memory, seconds that are added there. The tag comes back when it is bound.
    void add(int handle, int task, std::array<double, memories> crossing, uint64_t tag);
    size_t waiting() const { return waiting_; }
    // Appends what is bound now. Returns how many times a task was weighed against a kind.
    double decide(double now, const double* available, std::vector<bound>& out);
    void applied(double latency) { latency_ += SMOOTHING * (latency - latency_); }
    void observe(int graph, int task, int kind, double seconds) { graphs_[graph]->observe(task, kind, seconds); }
    void set_estimate(int graph, int task, int kind, double seconds) {
        graphs_[graph]->set_estimate(task, kind, seconds);
    }
    double estimate(int graph, int task, int kind) const { return (*graphs_[graph])(task, kind); }
    int frames() const { return in_flight_; }

private:
    struct ready_task {
        int task;
        std::array<double, memories> crossing;
        uint64_t tag;
    };
    // What a frame has to do on one kind, where it is cheapest.
    struct part {
        double left = 0, key = 0;       // work that is not bound
        std::vector<ready_task> ready;  // by place
    };
    struct frame {
        int graph = -1;
        std::shared_ptr<const estimates::summary> facts;
        double arrival = 0, slowdown = COMMON_SLOWDOWN;
        int unbound = 0, ready = 0;  // tasks that are not bound, ready or not; those that are ready
        std::vector<part> parts;     // by kind
    };

    bool counts(size_t graph) const;  // in the traffic
    void reprice(int rounds);
    void charge();
    void count(const rows& kinds, int task, int by);
    double slowdown_of(double work);
    void enter(int handle, int kind);
    void withdraw(int handle, int kind);
    void release(int handle);
    void settle(bound& made);

    std::shared_ptr<const system_model> system_;
    std::vector<std::unique_ptr<estimates>> graphs_;
    std::vector<frame> frames_;
    std::vector<int> unused_, unused_graphs_;
    std::set<std::tuple<double, int, int>> order_;  // (key, frame, kind) of the parts with ready tasks
    std::vector<double> price_, trial_;             // by kind: the averaged ones, which count, and the last ones
    int prices_ = 0;                                // how often they have changed
    std::vector<double> traffic_;                   // by graph: instances that arrived, the latest counting most
    double weight_ = 1.0;                           // of the next one
    uint64_t arrived_ = 0;
    int until_priced_ = 1;        // arrivals
    std::vector<int> supported_;  // by kind: ready tasks that it supports
    std::vector<int> lone_;       // by kind: those of them that no other kind supports
    std::vector<double> given_;   // by kind: seconds bound to each of its PEs, the latest counting most
    std::vector<double> charge_;  // by kind: what a second of it costs the others, in this decision
    std::vector<double> excess_;  // by kind: what is added to that where others are as fast
    size_t waiting_ = 0;
    int in_flight_ = 0;
    double latency_ = 0.0;
    std::vector<std::vector<std::pair<double, int>>> free_;  // by kind: heaps of (when, PE), kept for their memory
};

std::unique_ptr<policy> make_least_work(const system_model& system);

}  // namespace scheduling
