// Dataflow regions of a co-simulation, by the names that xclbin_build/dataflow.py writes into sources, and the calls of the
// top function.
#pragma once
#include <cstddef>
#include <exception>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "fifo.hpp"

namespace sim {

// The name of what processes share by turns; null for streams, and structures of streams, which nobody can copy.
template <class T_>
constexpr const char* array_name(const T_&, const char* name) {
    return std::is_copy_constructible<std::remove_all_extents_t<T_>>::value ? name : nullptr;
}

namespace cosim {

// The clocks of processes, which they keep from one run to the next.
control& control_of(std::uint32_t lane);

}  // namespace cosim

class region : public stall_cause {
public:
    explicit region(const char* name);
    region(const region&) = delete;
    region& operator=(const region&) = delete;
    ~region() noexcept(false) { join(); }

    const std::string& key() const { return key_; }

    // A process. arrays: variables that it shares with others by turns, as memories of two blocks.
    void run(const char* call, std::function<void()> body, std::initializer_list<const char*> arrays = {});
    // A process that runs again and again, and ends with the region.
    void task(const char* call, std::function<void()> body);
    // A stream, or a stream of blocks, of the region.
    void add_channel(const std::string& name) { channels_.push_back(name.substr(0, name.find_first_of("[."))); }
    void join();

    std::string cause(int) const override { return "processes of " + name_; }
    std::string waiting(int) const override { return "for processes of " + name_; }

private:
    struct member {
        std::unique_ptr<process> p;
        cosim::control* c;
        std::uint32_t began, ended;
        std::vector<std::string> arrays;
    };

    void start(const char* call, std::initializer_list<const char*> arrays,
               std::function<void(process&, cosim::control*)> body);
    member& of(const process& p);
    // Times of its start: of the region, of its own run before, and of those that it shares an array with. Such an array is
    // two blocks: the run before last of a later process must have ended.
    void begin(process& p, cosim::control* c);
    void end(cosim::control& c, process& p);
    static bool shares(const member& one, const member& other);
    bool is_fed(const member& m) const;
    // Values: those that share an array run one after the other.
    void wait_for_arrays(std::size_t number);
    void end_tasks();

    std::string name_, key_;
    process& parent_;
    cosim::control* above_;
    std::uint32_t begins_ = 0;
    std::vector<std::string> channels_;
    std::deque<member> members_;
    std::size_t alive_ = 0;
    bool joined_ = false;
    int unwinding_ = 0;
};

namespace cosim {

// A call of the top function by the test bench.
class top_call {
public:
    explicit top_call(const char* name);
    top_call(const top_call&) = delete;
    ~top_call() noexcept(false);

private:
    control* c_ = nullptr;
    std::uint32_t begin_ = 0;
    int alive_;
};

}  // namespace cosim

template <class T_, class = void>
struct has_fifo : std::false_type {};
template <class T_>
struct has_fifo<T_, decltype(static_cast<void>(std::declval<T_&>().fifo()))> : std::true_type {};
template <class T_, class = void>
struct has_step : std::false_type {};
template <class T_>
struct has_step<T_, decltype(static_cast<void>(std::declval<T_&>().step()))> : std::true_type {};

// What a region declares: a stream gets its depth, and a channel between one process and several is a process itself.
template <class T_>
void declare(region& of, T_& declared, std::size_t depth, const std::string& name) {
    if constexpr (std::is_array<T_>::value) {
        std::size_t number = 0;
        for (auto& element : declared) declare(of, element, depth, name + "[" + std::to_string(number++) + "]");
    } else if constexpr (has_step<T_>::value) {
        declare(of, declared.in, 0, name + ".in");
        declare(of, declared.out, 0, name + ".out");
        of.task(name.c_str(), [&declared] { declared.step(); });
    } else if constexpr (has_fifo<T_>::value) {
        of.add_channel(name);
        declared.fifo().limit(of.key(), depth ? depth : T_::hardware_depth(), name);
    } else if constexpr (!std::is_copy_constructible<T_>::value) {
        of.add_channel(name);
    }
}

}  // namespace sim
