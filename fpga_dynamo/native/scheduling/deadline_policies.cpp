#include "deadline_policies.hpp"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "list_policy.hpp"

namespace scheduling {
namespace {

// The most urgent task chooses its PE first. It is assigned if that PE is idle; else the PE is reserved for this round, and
// the task stays ready, so that a more urgent one can still come before it.
class edf : public list_policy {
public:
    using list_policy::list_policy;

    double decide(double now, const std::vector<double>& available, std::vector<assignment>& out) override {
        order_.clear();
        for (size_t i = 0; i < ready_.size(); ++i) order_.emplace_back(urgency(ready_[i]), i);
        std::sort(order_.begin(), order_.end());
        double evaluations = comparisons();
        planned_ = available;
        assigned_.assign(ready_.size(), false);
        for (const auto& entry : order_) {
            const ready_task& item = ready_[entry.second];
            const choice best = earliest(item, now, planned_, evaluations);
            if (planned_[best.pe] <= now) {
                out.push_back({item.owner, item.task, best.pe});
                assigned_[entry.second] = true;
            }
            planned_[best.pe] = best.finish;
        }
        size_t left = 0;
        for (size_t i = 0; i < ready_.size(); ++i)
            if (!assigned_[i]) ready_[left++] = ready_[i];
        ready_.resize(left);
        return evaluations;
    }

    // With transfers.
    double estimate(const instance& owner, int task, int kind) const override { return owner.graph->total(task, kind); }

protected:
    // The less, the more urgent.
    virtual double urgency(const ready_task& item) { return item.owner->deadline; }

private:
    std::vector<std::pair<double, size_t>> order_;
    std::vector<char> assigned_;
    std::vector<double> planned_;
};

// By the latest time at which the task can start and its instance meet its deadline, if all that follows runs on the kinds
// where it is fastest, at once. Less now, that is the laxity; now is the same for all.
class llf : public edf {
public:
    using edf::edf;

protected:
    double urgency(const ready_task& item) override {
        return item.owner->deadline - remaining(*item.owner->graph)[item.task];
    }

private:
    // By task: seconds of the longest path from its start to the end of the graph.
    const std::vector<double>& remaining(const graph_model& graph) {
        std::vector<double>& paths = paths_[&graph];
        if (!paths.empty()) return paths;
        paths.resize(graph.tasks());
        for (int task = graph.tasks() - 1; task >= 0; --task) {
            double least = std::numeric_limits<double>::infinity(), after = 0;
            for (int at = graph.supporting.begin[task]; at < graph.supporting.begin[task + 1]; ++at)
                least = std::min(least, graph.total(task, graph.supporting.items[at]));
            for (int at = graph.after.begin[task]; at < graph.after.begin[task + 1]; ++at)
                after = std::max(after, paths[graph.after.items[at]]);
            paths[task] = least + after;
        }
        return paths;
    }

    std::unordered_map<const graph_model*, std::vector<double>> paths_;
};

}  // namespace

std::unique_ptr<policy> make_edf(const system_model& system) { return std::make_unique<edf>(system); }
std::unique_ptr<policy> make_llf(const system_model& system) { return std::make_unique<llf>(system); }

}  // namespace scheduling
