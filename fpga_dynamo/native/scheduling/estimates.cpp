#include "estimates.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace scheduling {

namespace {

constexpr double WEIGHT = 0.25, CLIP = 4.0;  // of a measurement
constexpr int PATIENCE = 64;
constexpr double RANK_STEP = 0.33;  // of the critical path: ranks within it count as one
constexpr double MOVED = 0.1;       // relative change of an estimate that summary and groups should know of

// A task's work is a mix of two measures: by its kind's price (this share), and by the number of the kind's PEs, which
// ignores the other traffic. A share of its own seconds is added, because a task runs on one PE however many there are.
constexpr double WORK_BY_PRICE = 0.4, WORK_ALONE = 0.1;

}  // namespace

estimates::estimates(std::shared_ptr<const graph_model> graph) : graph_(std::move(graph)) {
    seconds_.resize(graph_->stated.size());
    for (size_t i = 0; i < seconds_.size(); ++i) seconds_[i] = graph_->stated[i] + graph_->transfer[i];
    missed_.assign(seconds_.size(), 0);
    patience_.assign(seconds_.size(), PATIENCE);
}

void estimates::set_estimate(int task, int kind, double seconds) {
    const int at = task * graph_->kinds + kind;
    seconds_[at] = seconds;
    ++observed_;
    const double known = snapshot_.empty() ? seconds : snapshot_[at];
    moved_ = moved_ || std::abs(seconds - known) > MOVED * known;
}

void estimates::observe(int task, int kind, double seconds) {
    const int row = task * graph_->kinds;
    const double expected = seconds_[row + kind];
    if (expected > 0) seconds = std::min(std::max(seconds, expected / CLIP), expected * CLIP);
    set_estimate(task, kind, expected + WEIGHT * (seconds - expected));
    const rows& kinds = graph_->supporting;
    missed_[row + kind] = 0;
    for (int at = kinds.begin[task]; at < kinds.begin[task + 1]; ++at) {
        const int other = row + kinds.items[at];
        const double stated = graph_->stated[other] + graph_->transfer[other];
        if (other == row + kind || seconds_[other] <= stated || ++missed_[other] < patience_[other]) continue;
        missed_[other] = 0;
        patience_[other] *= 2;
        seconds_[other] = stated;
        moved_ = true;
    }
}

int estimates::cheapest(int task, const std::vector<double>& prices) const {
    int best = -1;
    double least = 0.0;
    for (int at = graph_->supporting.begin[task]; at < graph_->supporting.begin[task + 1]; ++at) {
        const int kind = graph_->supporting.items[at];
        const double priced = (*this)(task, kind) * prices[kind];
        if (best < 0 || priced < least) best = kind, least = priced;
    }
    return best;
}

void estimates::refresh() {
    // Of estimates that moved, amortised, an observation costs O(1).
    if (!snapshot_.empty() && !(moved_ && observed_ >= graph_->tasks())) return;
    snapshot_ = seconds_;
    moved_ = false;
    observed_ = 0;
    summary_.reset();
    place_ = std::make_shared<const std::vector<int>>(places());
    const int kinds = graph_->kinds;
    const auto row = [&](int task) { return snapshot_.begin() + static_cast<ptrdiff_t>(task) * kinds; };
    const auto before = [&](int one, int other) {
        return std::lexicographical_compare(row(one), row(one) + kinds, row(other), row(other) + kinds);
    };
    std::vector<int> order(graph_->tasks());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), before);
    groups_.clear();
    for (const int task : order) {
        if (groups_.empty() || before(groups_.back().task, task)) groups_.push_back({task, 0});
        ++groups_.back().count;
    }
}

const std::vector<estimates::group>& estimates::groups() {
    refresh();
    return groups_;
}

std::vector<int> estimates::places() const {
    const int tasks = graph_->tasks();
    std::vector<double> rank(tasks);  // seconds to the end of the graph, each task where it is fastest
    double longest = 0.0;
    for (int task = tasks - 1; task >= 0; --task) {
        const rows &kinds = graph_->supporting, &after = graph_->after;
        double least = (*this)(task, kinds.items[kinds.begin[task]]);
        for (int at = kinds.begin[task]; at < kinds.begin[task + 1]; ++at)
            least = std::min(least, (*this)(task, kinds.items[at]));
        for (int at = after.begin[task]; at < after.begin[task + 1]; ++at)
            rank[task] = std::max(rank[task], rank[after.items[at]]);
        rank[task] += least;
        longest = std::max(longest, rank[task]);
    }
    std::vector<int> order(tasks), place(tasks), step(tasks);
    for (int task = 0; task < tasks; ++task)
        step[task] = longest > 0 ? static_cast<int>(rank[task] / (RANK_STEP * longest)) : 0;
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int one, int other) { return step[one] > step[other]; });
    for (int at = 0; at < tasks; ++at) place[order[at]] = at;
    return place;
}

std::shared_ptr<const estimates::summary> estimates::current(const system_model& system,
                                                             const std::vector<double>& prices, int version) {
    refresh();
    if (summary_ && version == version_) return summary_;
    auto made = std::make_shared<summary>();
    made->on.assign(graph_->kinds, 0.0);
    for (int task = 0; task < graph_->tasks(); ++task) {
        const int best = cheapest(task, prices);
        const double share = (1 - WORK_BY_PRICE) / system.members[best].size() + WORK_BY_PRICE * prices[best];
        const double work = (*this)(task, best) * (share + WORK_ALONE);
        made->work.push_back(work);
        made->cheapest.push_back(best);
        made->on[best] += work;
        made->total += work;
    }
    made->place = place_;
    summary_ = std::move(made);
    version_ = version;
    return summary_;
}

}  // namespace scheduling
