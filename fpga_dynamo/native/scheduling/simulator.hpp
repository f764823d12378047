// Virtual time: applications arrive, one serial scheduler decides, PEs run what they were given.
//
// A decision (a round) sees all tasks that are ready when it begins. It takes time by a formula and has its effect when it
// ends; tasks that become ready in between wait for the next round. Another round begins at once if something has changed,
// or, with a period, at the next multiple of it. A PE runs its tasks in the order in which they were given to it. Its
// PE waits while a transfer of its task waits for a channel.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model.hpp"
#include "policy.hpp"

namespace scheduling {

// Seconds.
struct decision_cost {
    double round = 0, evaluation = 0, assignment = 0;
    double period = 0;  // 0: whenever something has changed
    double wake = 0;    // until an idle PE begins, but for the one whose end made the round begin
};

struct arrival {
    double time;
    int application;
};

struct run_options {
    std::string policy = "least_work";
    uint64_t seed = 0;
    decision_cost cost;
    double spread = 0;  // sigma of a log-normal factor of median 1 on every task's seconds, the same under all policies
    double tail = 0;    // probability that a task takes 10 times as long
    bool trace = false;
    int channels = 0;               // transfers at once, the others wait in order; 0: any number
    std::vector<double> deadlines;  // by application, seconds from the arrival; empty: none has one
};

struct task_record {
    int instance, task, pe;
    double start, stop;
};

struct round_record {
    double time, seconds;
    int queued, assigned;
};

struct run_result {
    std::vector<double> started, ended;  // by arrival, in the order given
    std::vector<double> busy;            // by PE, seconds
    double end = 0;                      // when the last task ended
    double deciding = 0;                 // seconds of rounds
    uint64_t rounds = 0, assignments = 0;
    double evaluations = 0;
    size_t most_waiting = 0;
    std::vector<task_record> tasks;
    std::vector<round_record> decisions;
};

// Arrivals are sorted by time. Throws std::runtime_error if the policy leaves tasks while all PEs are idle.
run_result run(const system_model& system, const std::vector<std::shared_ptr<const graph_model>>& applications,
               const std::vector<arrival>& arrivals, const run_options& options);

}  // namespace scheduling
