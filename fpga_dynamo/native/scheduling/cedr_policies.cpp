// CEDR's six: SIMPLE, RANDOM, MET, EFT, ETF, HEFT_RT. All that is ready is bound at once, by stated seconds.
#include <algorithm>
#include <queue>
#include <random>

#include "deadline_policies.hpp"
#include "least_work.hpp"
#include "list_policy.hpp"

namespace scheduling {
namespace {

class simple : public list_policy {
public:
    using list_policy::list_policy;
    double decide(double, const std::vector<double>&, std::vector<assignment>& out) override {
        double evaluations = 0;
        for (const ready_task& item : ready_) {
            for (int step = 0; step < system_.pes(); ++step) {
                const int pe = (next_ + step) % system_.pes();
                evaluations += 1;
                if (item.owner->graph->stated[item.task * system_.kinds() + system_.kind_of[pe]] < 0) continue;
                out.push_back({item.owner, item.task, pe});
                next_ = (pe + 1) % system_.pes();
                break;
            }
        }
        ready_.clear();
        return evaluations;
    }

private:
    int next_ = 0;
};

class shuffled : public simple {
public:
    shuffled(const system_model& system, uint64_t seed) : simple(system), generator_(seed) {}
    double decide(double now, const std::vector<double>& available, std::vector<assignment>& out) override {
        // Not std::shuffle, whose order differs between libraries.
        for (size_t i = ready_.size(); i > 1; --i) std::swap(ready_[i - 1], ready_[generator_() % i]);
        return simple::decide(now, available, out);
    }

private:
    std::mt19937_64 generator_;
};

class met : public list_policy {
public:
    met(const system_model& system) : list_policy(system), turns_(system.kinds()) {}
    double decide(double, const std::vector<double>&, std::vector<assignment>& out) override {
        double evaluations = 0;
        for (const ready_task& item : ready_) {
            int best = -1;
            each_kind(item, [&](int kind) {
                evaluations += 1;
                const double here = seconds(item, kind), least = best < 0 ? 0 : seconds(item, best);
                if (best < 0 || here < least || (here == least && system_.members[kind][0] < system_.members[best][0]))
                    best = kind;
            });
            const std::vector<int>& members = system_.members[best];
            out.push_back({item.owner, item.task, members[turns_[best]++ % members.size()]});
        }
        ready_.clear();
        return evaluations;
    }

private:
    std::vector<size_t> turns_;
};

class eft : public list_policy {
public:
    using list_policy::list_policy;
    double decide(double now, const std::vector<double>& available, std::vector<assignment>& out) override {
        double evaluations = order();
        planned_ = available;
        for (const ready_task& item : ready_) {
            const choice best = earliest(item, now, planned_, evaluations);
            planned_[best.pe] = best.finish;
            out.push_back({item.owner, item.task, best.pe});
        }
        ready_.clear();
        return evaluations;
    }

protected:
    virtual double order() { return 0; }
    std::vector<double> planned_;
};

class heft_rt : public eft {
public:
    using eft::eft;

protected:
    // By mean seconds over the kinds that support the task, descending; the older of equals first.
    double order() override {
        std::vector<std::pair<double, size_t>> keys;
        for (size_t i = 0; i < ready_.size(); ++i) {
            double sum = 0;
            int count = 0;
            each_kind(ready_[i], [&](int kind) { sum += seconds(ready_[i], kind), ++count; });
            keys.emplace_back(-sum / count, i);
        }
        std::sort(keys.begin(), keys.end());
        std::vector<ready_task> sorted;
        for (const auto& key : keys) sorted.push_back(ready_[key.second]);
        ready_.swap(sorted);
        return comparisons();
    }
};

class etf : public list_policy {
public:
    using list_policy::list_policy;
    // CEDR's loop looks at all ready tasks and PEs for each assignment: n (n + 1) / 2 tasks in all, which is what is
    // counted. The heap finds the same with less: finish times only grow, so an entry is a lower bound.
    double decide(double now, const std::vector<double>& available, std::vector<assignment>& out) override {
        using entry = std::pair<double, size_t>;
        double unused = 0;
        planned_ = available;
        std::vector<entry> start;
        for (size_t i = 0; i < ready_.size(); ++i)
            start.emplace_back(earliest(ready_[i], now, planned_, unused).finish, i);
        std::priority_queue<entry, std::vector<entry>, std::greater<>> heap(std::greater<>(), std::move(start));
        while (!heap.empty()) {
            const auto [bound, i] = heap.top();
            const choice best = earliest(ready_[i], now, planned_, unused);
            heap.pop();
            if (best.finish > bound) {
                heap.emplace(best.finish, i);
                continue;
            }
            planned_[best.pe] = best.finish;
            out.push_back({ready_[i].owner, ready_[i].task, best.pe});
        }
        const double n = static_cast<double>(ready_.size());
        ready_.clear();
        return n * (n + 1) / 2 * system_.pes();
    }

private:
    std::vector<double> planned_;
};

}  // namespace

const std::vector<std::string> policy_names{"simple",  "random",     "met", "eft", "etf",
                                            "heft_rt", "least_work", "edf", "llf"};

std::unique_ptr<policy> make_policy(const std::string& name, const system_model& system, uint64_t seed) {
    if (name == "simple") return std::make_unique<simple>(system);
    if (name == "random") return std::make_unique<shuffled>(system, seed);
    if (name == "met") return std::make_unique<met>(system);
    if (name == "eft") return std::make_unique<eft>(system);
    if (name == "etf") return std::make_unique<etf>(system);
    if (name == "heft_rt") return std::make_unique<heft_rt>(system);
    if (name == "least_work") return make_least_work(system);
    if (name == "edf") return make_edf(system);
    if (name == "llf") return make_llf(system);
    throw std::invalid_argument("unknown native policy '" + name + "'");
}

}  // namespace scheduling
