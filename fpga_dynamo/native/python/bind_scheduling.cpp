// The simulator of systems and the default policy, for fpga_dynamo.runtime.scheduling.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "least_work.hpp"
#include "simulator.hpp"

using namespace nb::literals;

namespace {

using scheduling::graph_model;
using scheduling::least_work;
using scheduling::run_result;
using scheduling::system_model;
using columns = nb::ndarray<nb::numpy, double, nb::ndim<1>>;

// The vector's memory as a NumPy array that owns it.
columns owned(std::vector<double> values) {
    auto* held = new std::vector<double>(std::move(values));
    nb::capsule owner(held, [](void* memory) noexcept { delete static_cast<std::vector<double>*>(memory); });
    return columns(held->data(), {held->size()}, owner);
}

template <typename Record, typename Field>
columns column(const std::vector<Record>& records, Field Record::* field) {
    std::vector<double> values;
    values.reserve(records.size());
    for (const Record& record : records) values.push_back(static_cast<double>(record.*field));
    return owned(std::move(values));
}

nb::dict run(const std::shared_ptr<system_model>& system, const std::vector<std::shared_ptr<graph_model>>& graphs,
             const std::vector<double>& times, const std::vector<int>& applications, const std::string& policy,
             uint64_t seed, const std::vector<double>& cost, double spread, double tail, bool trace,
             std::vector<double> deadlines, int channels) {
    if (times.size() != applications.size() || cost.size() != 5)
        throw nb::value_error("give as many times as applications, and five costs");
    scheduling::run_options options;
    options.policy = policy;
    options.seed = seed;
    options.cost = {cost[0], cost[1], cost[2], cost[3], cost[4]};
    options.spread = spread;
    options.tail = tail;
    options.trace = trace;
    options.deadlines = std::move(deadlines);
    options.channels = channels;
    std::vector<scheduling::arrival> arrivals;
    for (size_t i = 0; i < times.size(); ++i) arrivals.push_back({times[i], applications[i]});
    const std::vector<std::shared_ptr<const graph_model>> models(graphs.begin(), graphs.end());
    run_result result;
    {
        nb::gil_scoped_release release;
        result = scheduling::run(*system, models, arrivals, options);
    }
    nb::dict out;
    out["started"] = owned(std::move(result.started));
    out["ended"] = owned(std::move(result.ended));
    out["busy"] = owned(std::move(result.busy));
    out["end"] = result.end;
    out["deciding"] = result.deciding;
    out["rounds"] = result.rounds;
    out["assignments"] = result.assignments;
    out["evaluations"] = result.evaluations;
    out["most_waiting"] = result.most_waiting;
    if (trace) {
        using scheduling::round_record;
        using scheduling::task_record;
        out["task_instance"] = column(result.tasks, &task_record::instance);
        out["task_index"] = column(result.tasks, &task_record::task);
        out["task_pe"] = column(result.tasks, &task_record::pe);
        out["task_start"] = column(result.tasks, &task_record::start);
        out["task_stop"] = column(result.tasks, &task_record::stop);
        out["round_time"] = column(result.decisions, &round_record::time);
        out["round_seconds"] = column(result.decisions, &round_record::seconds);
        out["round_queued"] = column(result.decisions, &round_record::queued);
        out["round_assigned"] = column(result.decisions, &round_record::assigned);
    }
    return out;
}

// The default policy with a Python object for each ready task.
class least_work_policy {
public:
    explicit least_work_policy(std::shared_ptr<system_model> system) : pes_(system->pes()), core_(std::move(system)) {}

    int add_graph(std::shared_ptr<graph_model> graph) { return core_.add_graph(std::move(graph)); }
    int arrive(int graph, double arrival, double share) { return core_.arrive(graph, arrival, share); }
    void leave(int frame) { core_.leave(frame); }
    void add(int frame, int task, uint64_t tag) { core_.add(frame, task, {}, tag); }
    void forget_graph(int graph) { core_.forget_graph(graph); }
    // Of each task that is bound now: its tag, the number of its PE, whether it is the last one of its frame.
    std::vector<std::tuple<uint64_t, int, bool>> decide(double now, const std::vector<double>& available) {
        if (static_cast<int>(available.size()) != pes_)
            throw nb::value_error("give one time for each processing element");
        made_.clear();
        core_.decide(now, available.data(), made_);
        std::vector<std::tuple<uint64_t, int, bool>> out;
        for (const auto& one : made_) out.emplace_back(one.tag, one.pe, one.last);
        return out;
    }
    void set_estimate(int graph, int task, int kind, double seconds) { core_.set_estimate(graph, task, kind, seconds); }
    void applied(double latency) { core_.applied(latency); }
    size_t waiting() const { return core_.waiting(); }
    int frames() const { return core_.frames(); }

private:
    int pes_;
    least_work core_;
    std::vector<least_work::bound> made_;
};

}  // namespace

void bind_scheduling(nb::module_& module) {
    nb::class_<system_model>(module, "system_model")
        .def(nb::init<std::vector<int>, std::vector<int>>(), "kind_of"_a, "memory_of"_a);
    nb::class_<graph_model>(module, "graph_model")
        .def(nb::init<const system_model&, std::vector<double>, std::vector<double>,
                      const std::vector<std::vector<int>>&, std::vector<double>, std::vector<double>>(),
             "system"_a, "stated"_a, "transfer"_a, "edges"_a, "crossing"_a, "outward"_a = std::vector<double>());
    module.def("simulate", &run, "system"_a, "graphs"_a, "times"_a, "applications"_a, "policy"_a, "seed"_a, "cost"_a,
               "spread"_a, "tail"_a, "trace"_a, "deadlines"_a = std::vector<double>(), "channels"_a = 0);
    nb::class_<least_work_policy>(module, "least_work")
        .def(nb::init<std::shared_ptr<system_model>>(), "system"_a)
        .def("add_graph", &least_work_policy::add_graph, "graph"_a)
        .def("forget_graph", &least_work_policy::forget_graph, "graph"_a)
        .def("arrive", &least_work_policy::arrive, "graph"_a, "arrival"_a, "share"_a)
        .def("leave", &least_work_policy::leave, "frame"_a)
        .def("add", &least_work_policy::add, "frame"_a, "task"_a, "tag"_a)
        .def("decide", &least_work_policy::decide, "now"_a, "available"_a)
        .def("set_estimate", &least_work_policy::set_estimate, "graph"_a, "task"_a, "kind"_a, "seconds"_a)
        .def("applied", &least_work_policy::applied, "latency"_a)
        .def("waiting", &least_work_policy::waiting)
        .def("frames", &least_work_policy::frames);
}
