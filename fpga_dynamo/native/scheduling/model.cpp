#include "model.hpp"

#include <utility>

namespace scheduling {

system_model::system_model(std::vector<int> kinds, std::vector<int> memory)
    : kind_of(std::move(kinds)), memory_of(std::move(memory)) {
    members.resize(memory_of.size());
    for (size_t pe = 0; pe < kind_of.size(); ++pe) {
        if (kind_of[pe] < 0 || kind_of[pe] >= static_cast<int>(members.size()))
            throw std::invalid_argument("a processing element has an unknown kind");
        members[kind_of[pe]].push_back(static_cast<int>(pe));
    }
    for (const int where : memory_of)
        if (where < 0 || where >= memories)
            throw std::invalid_argument("a kind of processing element has an unknown memory");
}

graph_model::graph_model(const system_model& system, std::vector<double> seconds, std::vector<double> transfers,
                         const std::vector<std::vector<int>>& edges, std::vector<double> crossings,
                         std::vector<double> outwards)
    : kinds(system.kinds()),
      stated(std::move(seconds)),
      transfer(std::move(transfers)),
      outward(std::move(outwards)),
      crossing(std::move(crossings)) {
    const size_t count = edges.size();
    if (outward.empty()) outward.resize(stated.size());
    if (stated.size() != count * kinds || transfer.size() != stated.size() || outward.size() != stated.size())
        throw std::invalid_argument("seconds and transfers must be given for each task and kind");
    std::vector<std::vector<int>> following(count);
    for (size_t task = 0; task < count; ++task) {
        for (int kind = 0; kind < kinds; ++kind)
            if (stated[task * kinds + kind] >= 0 && !system.members[kind].empty()) supporting.items.push_back(kind);
        supporting.close();
        if (supporting.begin[task] == supporting.begin[task + 1])
            throw std::invalid_argument("task " + std::to_string(task) + " can run on no processing element");
        for (const int other : edges[task]) {
            if (other < 0 || other >= static_cast<int>(task))
                throw std::invalid_argument("task " + std::to_string(task) +
                                            " depends on a task that is not before it");
            before.items.push_back(other);
            following[other].push_back(static_cast<int>(task));
        }
        before.close();
        if (edges[task].empty()) roots.push_back(static_cast<int>(task));
    }
    for (const std::vector<int>& row : following) {
        after.items.insert(after.items.end(), row.begin(), row.end());
        after.close();
    }
    if (crossing.size() != before.items.size()) throw std::invalid_argument("transfers must be given for each edge");
    for (const double value : crossing) crosses = crosses || value > 0;
}

double instance::crossing_to(int task, int memory) const {
    if (where.empty()) return 0.0;
    double sum = 0.0;
    for (int edge = graph->before.begin[task]; edge < graph->before.begin[task + 1]; ++edge)
        if (where[graph->before.items[edge]] != memory) sum += graph->crossing[edge];
    return sum;
}

}  // namespace scheduling
