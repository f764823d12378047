#include "least_work.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <unordered_map>

namespace scheduling {

namespace {

// Of the prices: step and averaging of the multiplicative weights, and the least price beside the mean one.
constexpr double STEP = 0.1, AVERAGING = 0.02, LEAST_PRICE = 1e-3;
constexpr int FIRST_ROUNDS = 400, ROUNDS = 32, ARRIVALS = 4;  // rounds at the first arrival, and after each so many
constexpr double MEMORY = 64;                                 // arrivals that the traffic is an average over

// A graph is forgotten when all its past arrivals, decayed, weigh less than FORGOTTEN of a new one: prices ignore it. A
// round over all graphs is made after every GRAPHS_AN_ARRIVAL arrivals. So the average cost of an arrival does not grow
// with the number of graphs. Both matter only with more graphs than a workload has applications.
constexpr double FORGOTTEN = 0.01, GRAPHS_AN_ARRIVAL = 16;

// How much more a kind costs that was given more than its share of the last so many tasks, by how much more, and the most
// that this may add and take away.
constexpr double BALANCE = 10, MOST_ADDED = 0.3, MOST_TAKEN = 0.15, GIVEN = 500;

}  // namespace

least_work::least_work(std::shared_ptr<const system_model> system) : system_(std::move(system)) {
    price_.assign(system_->kinds(), 1.0 / system_->pes());
    trial_ = price_;
    supported_.assign(system_->kinds(), 0);
    lone_.assign(system_->kinds(), 0);
    given_.assign(system_->kinds(), 0.0);
    charge_.assign(system_->kinds(), 0.0);
    excess_.assign(system_->kinds(), 0.0);
    free_.resize(system_->kinds());
}

bool least_work::counts(size_t graph) const { return graphs_[graph] && traffic_[graph] > FORGOTTEN * weight_; }

void least_work::reprice(int rounds) {
    const int kinds = system_->kinds();
    std::vector<double> load(kinds);
    for (int round = 0; round < rounds; ++round) {
        std::fill(load.begin(), load.end(), 0.0);
        for (size_t number = 0; number < traffic_.size(); ++number) {
            if (!counts(number)) continue;
            estimates& believed = *graphs_[number];
            for (const estimates::group& alike : believed.groups()) {
                const int kind = believed.cheapest(alike.task, trial_);
                load[kind] += traffic_[number] * alike.count * believed(alike.task, kind);
            }
        }
        double most = 0.0, all = 0.0, sum = 0.0;
        for (int kind = 0; kind < kinds; ++kind) {
            if (system_->members[kind].empty()) continue;
            all += load[kind];
            load[kind] /= system_->members[kind].size();
            most = std::max(most, load[kind]);
        }
        if (most <= 0) break;
        const double mean = all / system_->pes(), least = LEAST_PRICE / system_->pes();
        for (int kind = 0; kind < kinds; ++kind) {
            trial_[kind] = std::max(least, trial_[kind] * std::exp(STEP * (load[kind] - mean) / most));
            sum += trial_[kind] * system_->members[kind].size();
        }
        for (int kind = 0; kind < kinds; ++kind) {
            trial_[kind] /= sum;
            price_[kind] += AVERAGING * (trial_[kind] - price_[kind]);
        }
    }
    ++prices_;
}

// Makes `charge_` and `excess_`: of each kind, how many seconds others lose for a second of a PE, and how many of them are
// for its having been given more than its share. Shares are in terms of the prices, by which a full system gives each kind
// that counts as many seconds a PE.
void least_work::charge() {
    const int others = in_flight_ - 1;
    double mean = 0.0;
    for (int kind = 0; kind < system_->kinds(); ++kind)
        mean += price_[kind] * system_->members[kind].size() * given_[kind];
    for (int kind = 0; kind < system_->kinds(); ++kind) {
        if (system_->members[kind].empty()) continue;
        const double priced = PRICE * others * price_[kind];
        const double waiting = static_cast<double>(std::min(lone_[kind], in_flight_)) / system_->members[kind].size();
        const double off = mean > 0 ? BALANCE * (given_[kind] / mean - 1) : 0.0;
        charge_[kind] = priced + LONE_PRICE * waiting;
        excess_[kind] = priced * std::min(MOST_ADDED, std::max(-MOST_TAKEN, off));
    }
}

// `by` more tasks like this one are ready.
void least_work::count(const rows& kinds, int task, int by) {
    const int begin = kinds.begin[task], end = kinds.begin[task + 1];
    for (int at = begin; at < end; ++at) supported_[kinds.items[at]] += by;
    if (end - begin == 1) lone_[kinds.items[begin]] += by;
}

int least_work::add_graph(std::shared_ptr<const graph_model> graph) {
    auto made = std::make_unique<estimates>(std::move(graph));
    if (unused_graphs_.empty()) {
        graphs_.push_back(std::move(made));
        return static_cast<int>(graphs_.size()) - 1;
    }
    const int number = unused_graphs_.back();
    unused_graphs_.pop_back();
    graphs_[number] = std::move(made);
    return number;
}

void least_work::forget_graph(int graph) {
    for (size_t handle = 0; handle < frames_.size(); ++handle)
        if (frames_[handle].graph == graph) leave(static_cast<int>(handle));
    graphs_[graph].reset();
    if (static_cast<size_t>(graph) < traffic_.size()) traffic_[graph] = 0.0;  // the number's next graph is another one
    unused_graphs_.push_back(graph);
}

// Of an instance that has so much work in all. O(graphs known), but where prices or estimates have moved, which took longer.
double least_work::slowdown_of(double work) {
    double arrivals = 0.0, as_long = 0.0;
    for (size_t number = 0; number < traffic_.size(); ++number) {
        if (!counts(number)) continue;
        arrivals += traffic_[number];
        if (graphs_[number]->current(*system_, price_, prices_)->total >= work) as_long += traffic_[number];
    }
    const double rare = std::min(1.0, std::max(0.0, (COMMON - as_long / arrivals) / (COMMON - RARE)));
    return COMMON_SLOWDOWN + rare * (RARE_SLOWDOWN - COMMON_SLOWDOWN);
}

int least_work::arrive(int graph, double arrival, double share) {
    int handle = static_cast<int>(frames_.size());
    if (unused_.empty()) {
        frames_.emplace_back();
    } else {
        handle = unused_.back();
        unused_.pop_back();
    }
    frame& one = frames_[handle];
    one.graph = graph;
    traffic_.resize(graphs_.size());
    traffic_[graph] += weight_;
    weight_ *= 1 + 1 / MEMORY;  // the latest arrivals count most
    if (weight_ > 1e6) {
        for (double& traffic : traffic_) traffic /= weight_;
        weight_ = 1.0;
    }
    if (--until_priced_ <= 0) {
        reprice(arrived_ ? ROUNDS : FIRST_ROUNDS);
        int counting = 0;
        for (size_t number = 0; number < traffic_.size(); ++number) counting += counts(number);
        until_priced_ = std::max(ARRIVALS, static_cast<int>(counting / GRAPHS_AN_ARRIVAL));
    }
    ++arrived_;
    one.facts = graphs_[graph]->current(*system_, price_, prices_);
    one.arrival = arrival;
    one.slowdown = slowdown_of(one.facts->total);
    one.parts.resize(system_->kinds());
    for (int kind = 0; kind < system_->kinds(); ++kind) one.parts[kind].left = one.facts->on[kind] * share;
    one.unbound = std::max(1, static_cast<int>(std::lround(graphs_[graph]->graph().tasks() * share)));
    ++in_flight_;
    return handle;
}

void least_work::enter(int handle, int kind) {
    frame& one = frames_[handle];
    part& of = one.parts[kind];
    of.key = one.arrival + one.slowdown * of.left;
    order_.emplace(of.key, handle, kind);
}

void least_work::withdraw(int handle, int kind) { order_.erase({frames_[handle].parts[kind].key, handle, kind}); }

void least_work::add(int handle, int task, std::array<double, memories> crossing, uint64_t tag) {
    frame& one = frames_[handle];
    const int kind = one.facts->cheapest[task];
    std::vector<ready_task>& ready = one.parts[kind].ready;
    if (ready.empty()) enter(handle, kind);
    const std::vector<int>& order = *one.facts->place;
    const auto place = std::upper_bound(ready.begin(), ready.end(), task, [&](int wanted, const ready_task& other) {
        return order[wanted] < order[other.task];
    });
    ready.insert(place, {task, crossing, tag});
    ++one.ready;
    count(graphs_[one.graph]->graph().supporting, task, 1);
    ++waiting_;
}

void least_work::release(int handle) {
    frame& one = frames_[handle];
    one.facts.reset();
    one.graph = -1;
    unused_.push_back(handle);
    --in_flight_;
}

void least_work::leave(int handle) {
    frame& one = frames_[handle];
    if (one.graph < 0) return;
    const rows& kinds = graphs_[one.graph]->graph().supporting;
    for (int kind = 0; kind < system_->kinds(); ++kind) {
        std::vector<ready_task>& ready = one.parts[kind].ready;
        if (!ready.empty()) withdraw(handle, kind);
        for (const ready_task& item : ready) count(kinds, item.task, -1);
        ready.clear();
    }
    waiting_ -= one.ready;
    one.ready = 0;
    release(handle);
}

void least_work::settle(bound& made) {
    frame& one = frames_[made.frame];
    const int kind = one.facts->cheapest[made.task];
    part& of = one.parts[kind];
    withdraw(made.frame, kind);
    const std::vector<int>& order = *one.facts->place;
    const auto place =
        std::lower_bound(of.ready.begin(), of.ready.end(), made.task,
                         [&](const ready_task& other, int wanted) { return order[other.task] < order[wanted]; });
    of.ready.erase(place);
    of.left = std::max(0.0, of.left - one.facts->work[made.task]);
    count(graphs_[one.graph]->graph().supporting, made.task, -1);
    --waiting_;
    --one.ready;
    if (!of.ready.empty()) enter(made.frame, kind);
    made.last = --one.unbound <= 0 && !one.ready;
    if (made.last) release(made.frame);
}

double least_work::decide(double now, const double* available, std::vector<bound>& out) {
    const int kinds = system_->kinds();
    const double limit = now + HORIZON * latency_;
    // Ready tasks that a kind with a free PE may still find: the search ends when no such kind can find any.
    std::array<int, 64> small;
    std::vector<int> large(kinds > 64 ? kinds : 0);
    int* hungry = kinds > 64 ? large.data() : small.data();
    int searching = 0;
    for (int kind = 0; kind < kinds; ++kind) {
        auto& heap = free_[kind];
        heap.clear();
        for (const int pe : system_->members[kind]) heap.emplace_back(std::max(now, available[pe]), pe);
        std::make_heap(heap.begin(), heap.end(), std::greater<>());
        hungry[kind] = !heap.empty() && heap.front().first <= limit ? supported_[kind] : 0;
        searching += hungry[kind] > 0;
    }
    if (!searching) return kinds;
    charge();
    const size_t first = out.size();
    double evaluations = 0;
    int looked = 0;
    for (const auto& [_, handle, part_of] : order_) {
        const frame& one = frames_[handle];
        const estimates& believed = *graphs_[one.graph];
        const rows& supporting = believed.graph().supporting;
        for (const ready_task& item : one.parts[part_of].ready) {
            const int begin = supporting.begin[item.task], end = supporting.begin[item.task + 1];
            int choice = -1;
            double least = 0.0, cost = 0.0;
            double fastest = std::numeric_limits<double>::infinity(), second = fastest;
            for (int at = begin; at < end; ++at) {
                const int kind = supporting.items[at];
                const double seconds = believed(item.task, kind) + item.crossing[system_->memory_of[kind]];
                second = std::min(second, std::max(seconds, fastest));
                fastest = std::min(fastest, seconds);
            }
            for (int at = begin; at < end; ++at) {  // what the cheapest one costs is in all scores, and so in none
                const int kind = supporting.items[at];
                const double seconds = believed(item.task, kind) + item.crossing[system_->memory_of[kind]];
                const double other = seconds > fastest ? fastest : second;
                const double charged = charge_[kind] + excess_[kind] * std::min(1.0, seconds / other);
                const double score = free_[kind].front().first + seconds * (1 + charged);
                if (choice < 0 || score < least) choice = kind, least = score, cost = seconds;
                if (hungry[kind] == 1) --searching;
                if (hungry[kind] > 0) --hungry[kind];
            }
            evaluations += end - begin;
            auto& heap = free_[choice];
            const auto [start, pe] = heap.front();
            std::pop_heap(heap.begin(), heap.end(), std::greater<>());
            heap.back().first = start + cost;
            std::push_heap(heap.begin(), heap.end(), std::greater<>());
            if (start <= limit) {
                out.push_back({handle, item.task, pe, item.tag, false});
                for (double& given : given_) given *= 1 - 1 / GIVEN;
                given_[choice] += cost / system_->members[choice].size();
            }
            if (heap.front().first > limit && hungry[choice] > 0) hungry[choice] = 0, --searching;
            if (!searching || ++looked >= LOOK) break;
        }
        if (!searching || looked >= LOOK) break;
    }
    for (size_t i = first; i < out.size(); ++i) settle(out[i]);
    return evaluations;
}

namespace {

// The policy as the simulator calls it.
class simulated : public policy {
public:
    explicit simulated(const system_model& system)
        : policy(system), core_(std::shared_ptr<const system_model>(std::shared_ptr<void>(), &system)) {}

    void arrive(instance& owner) override {
        owner.handle = core_.arrive(graph(*owner.graph), owner.arrival);
        if (owners_.size() <= static_cast<size_t>(owner.handle)) owners_.resize(owner.handle + 1);
        owners_[owner.handle] = &owner;
    }
    void add(instance& owner, int task) override {
        std::array<double, memories> crossing{};
        for (int memory = 0; memory < memories; ++memory) crossing[memory] = owner.crossing_to(task, memory);
        core_.add(owner.handle, task, crossing, 0);
    }
    size_t waiting() const override { return core_.waiting(); }
    double decide(double now, const std::vector<double>& available, std::vector<assignment>& out) override {
        made_.clear();
        const double evaluations = core_.decide(now, available.data(), made_);
        for (const auto& bound : made_) out.push_back({owners_[bound.frame], bound.task, bound.pe});
        return evaluations;
    }
    double estimate(const instance& owner, int task, int kind) const override {
        return core_.estimate(graphs_.at(owner.graph), task, kind) + owner.crossing_to(task, system_.memory_of[kind]);
    }
    void observe(const instance& owner, int task, int kind, double seconds) override {
        const double crossing = owner.crossing_to(task, system_.memory_of[kind]);
        core_.observe(graphs_.at(owner.graph), task, kind, std::max(0.0, seconds - crossing));
    }
    void applied(double latency) override { core_.applied(latency); }

private:
    int graph(const graph_model& model) {
        const auto found = graphs_.find(&model);
        if (found != graphs_.end()) return found->second;
        const std::shared_ptr<const graph_model> unowned(std::shared_ptr<void>(), &model);
        return graphs_[&model] = core_.add_graph(unowned);
    }

    least_work core_;
    std::unordered_map<const graph_model*, int> graphs_;
    std::vector<instance*> owners_;
    std::vector<least_work::bound> made_;
};

}  // namespace

std::unique_ptr<policy> make_least_work(const system_model& system) { return std::make_unique<simulated>(system); }

}  // namespace scheduling
