// Estimates of what tasks cost on each kind of PE, for the policy `least_work`.
#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "model.hpp"

namespace scheduling {

// Estimated seconds of each task of a graph by kind of PE: the stated seconds, corrected by measurements.
class estimates {
public:
    explicit estimates(std::shared_ptr<const graph_model> graph);
    double operator()(int task, int kind) const { return seconds_[task * graph_->kinds + kind]; }
    // A run of `task` on `kind` took `seconds`. One measurement counts as at most 4 times, at least a quarter of, what
    // was expected. Where a task has run long enough elsewhere, the stated seconds are used again.
    void observe(int task, int kind, double seconds);
    void set_estimate(int task, int kind, double seconds);  // an estimate of another policy
    const graph_model& graph() const { return *graph_; }

    // The tasks' work on their cheapest kinds, and in which order they are served. Made again as prices or estimates move; an
    // application in flight keeps the one that it came with, or its sums would not come to zero.
    struct summary {
        std::vector<double> work;                       // by task: what it takes of the system, in seconds
        std::vector<int> cheapest;                      // by task: the kind that it is work of
        std::vector<double> on;                         // by kind: the work of its tasks
        std::shared_ptr<const std::vector<int>> place;  // by task: in the order in which ready ones are served
        double total = 0.0;
    };
    struct group {
        int task, count;  // so many tasks take as long as this one does, on every kind
    };
    const std::vector<group>& groups();
    int cheapest(int task, const std::vector<double>& prices) const;
    std::shared_ptr<const summary> current(const system_model& system, const std::vector<double>& prices, int version);

private:
    std::shared_ptr<const graph_model> graph_;
    void refresh();
    std::vector<int> places() const;

    std::vector<double> seconds_, snapshot_;  // as they were when groups and summary were made
    std::vector<group> groups_;
    std::shared_ptr<const std::vector<int>> place_;
    std::vector<int> missed_;    // runs elsewhere since the last run here
    std::vector<int> patience_;  // so many of these until it is tried again
    std::shared_ptr<const summary> summary_;
    bool moved_ = false;
    int observed_ = 0;  // since the snapshot
    int version_ = -1;  // of the prices that the summary was made with
};

}  // namespace scheduling
