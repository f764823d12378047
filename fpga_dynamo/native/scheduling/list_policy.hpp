// List scheduling: a policy that keeps the ready tasks, oldest first, and looks for the PE where each ends first.
#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "policy.hpp"

namespace scheduling {

struct ready_task {
    instance* owner;
    int task;
};

class list_policy : public policy {
public:
    using policy::policy;
    void add(instance& owner, int task) override { ready_.push_back({&owner, task}); }
    size_t waiting() const override { return ready_.size(); }

protected:
    std::vector<ready_task> ready_;

    // What sorting the ready tasks costs, in evaluations.
    double comparisons() const {
        const double n = static_cast<double>(ready_.size());
        return n > 1 ? n * std::log2(n) : 0;
    }

    double seconds(const ready_task& item, int kind) const { return estimate(*item.owner, item.task, kind); }

    template <typename Visit>
    void each_kind(const ready_task& item, Visit&& visit) const {
        const rows& kinds = item.owner->graph->supporting;
        for (int at = kinds.begin[item.task]; at < kinds.begin[item.task + 1]; ++at) visit(kinds.items[at]);
    }

    struct choice {
        double finish;
        int pe;
    };

    // Least max(now, available) + seconds over the PEs that support it; the first PE wins a tie.
    choice earliest(const ready_task& item, double now, const std::vector<double>& planned, double& evaluations) const {
        choice best{0.0, -1};
        each_kind(item, [&](int kind) {
            const double cost = seconds(item, kind);
            for (const int pe : system_.members[kind]) {
                const double finish = std::max(now, planned[pe]) + cost;
                if (best.pe < 0 || finish < best.finish || (finish == best.finish && pe < best.pe)) best = {finish, pe};
                evaluations += 1;
            }
        });
        return best;
    }
};

}  // namespace scheduling
