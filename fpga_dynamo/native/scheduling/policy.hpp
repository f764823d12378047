// A policy of the simulator: which ready task goes to which PE.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "model.hpp"

namespace scheduling {

struct assignment {
    instance* owner;
    int task;
    int pe;
};

class policy {
public:
    explicit policy(const system_model& system) : system_(system) {}
    virtual ~policy() = default;

    virtual void arrive(instance&) {}
    virtual void add(instance& owner, int task) = 0;  // it is ready
    virtual size_t waiting() const = 0;               // ready tasks that were not assigned

    // Appends what is assigned. available: by PE, when it will have done what it was given; idle ones are in the past.
    // Returns the evaluations that it made, which are what its decision costs.
    virtual double decide(double now, const std::vector<double>& available, std::vector<assignment>& out) = 0;

    virtual double estimate(const instance& owner, int task, int kind) const {
        return owner.graph->stated[task * owner.graph->kinds + kind];
    }
    virtual void observe(const instance&, int /*task*/, int /*kind*/, double /*seconds*/) {}
    virtual void applied(double /*latency*/) {}  // seconds from when something could be decided until it was

protected:
    const system_model& system_;
};

// One of those in `names`; seed drives "random". Throws std::invalid_argument for another name.
std::unique_ptr<policy> make_policy(const std::string& name, const system_model& system, uint64_t seed);
extern const std::vector<std::string> policy_names;

}  // namespace scheduling
