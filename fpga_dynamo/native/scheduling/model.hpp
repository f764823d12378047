// What is scheduled: processing elements (PEs) of several kinds, task graphs with seconds for each kind, and instances.
#pragma once
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

namespace scheduling {

constexpr int host_memory = 0;  // where the PS keeps its data; every other memory is a card's
constexpr int memories = 2;

// A kind is what tasks state seconds for: a class of CPU, a kernel, or one of them at another clock.
struct system_model {
    std::vector<int> kind_of;               // by PE
    std::vector<std::vector<int>> members;  // by kind: its PEs
    std::vector<int> memory_of;             // by kind

    system_model(std::vector<int> kinds, std::vector<int> memory);
    int pes() const { return static_cast<int>(kind_of.size()); }
    int kinds() const { return static_cast<int>(members.size()); }
};

// Lists of numbers, one for each row, in one array.
struct rows {
    std::vector<int> begin{0};
    std::vector<int> items;

    void close() { begin.push_back(static_cast<int>(items.size())); }
    int size() const { return static_cast<int>(begin.size()) - 1; }
};

struct graph_model {
    int kinds = 0;
    std::vector<double> stated;    // seconds without transfers by [task][kind]; negative if the kind cannot run it
    std::vector<double> transfer;  // by [task][kind]: what crosses whatever ran before
    std::vector<double> outward;   // by [task][kind]: the part of `transfer` that follows the task
    rows supporting;               // by task: the kinds that can run it and of which there is a PE
    rows before;                   // by task: what it depends on
    std::vector<double> crossing;  // beside before.items: seconds if the two tasks run in different memories
    rows after;
    std::vector<int> roots;
    bool crosses = false;  // some crossing takes time

    // edges: for each task the tasks before it; crossings: seconds for each edge, in the same order. outwards: empty if
    // all transfers precede their tasks.
    graph_model(const system_model& system, std::vector<double> seconds, std::vector<double> transfers,
                const std::vector<std::vector<int>>& edges, std::vector<double> crossings,
                std::vector<double> outwards = {});
    int tasks() const { return supporting.size(); }
    double total(int task, int kind) const { return stated[task * kinds + kind] + transfer[task * kinds + kind]; }
};

// One execution of a graph.
struct instance {
    const graph_model* graph = nullptr;
    int number = 0;
    int application = 0;
    double arrival = 0.0;
    double deadline = std::numeric_limits<double>::infinity();  // when it should have ended
    double started = -1.0;
    double ended = -1.0;
    int left = 0;               // tasks that have not ended
    std::vector<int> waiting;   // by task: dependencies that have not ended
    std::vector<int8_t> where;  // by task: the memory that its result is in; empty if crossings are free
    int handle = -1;            // a policy's own

    // Seconds that reaching `memory` adds to `task`, whose dependencies have all ended.
    double crossing_to(int task, int memory) const;
};

}  // namespace scheduling
