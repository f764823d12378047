// The ports of several CUs that share a network, to memory that lies in the process; all run side by side in one simulation.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine.hpp"
#include "sim/distant.hpp"

#if ENGINE_CUS > 1

namespace engine {

// Bursts of weights that are on their way at once: their bank holds maps as well, whose bursts wait behind them. Four are twice
// what it takes to hide the bank's latency (num_read_outstanding of the port's interface).
constexpr uint32_t WEIGHT_BURSTS = 4;

// A region of a CU: its lines, how many, their device address, and the bank that they lie in (none: beats cost nothing).
struct peer_region {
    line_t* data;
    uint64_t lines, address;
    sim::bank* bank;
};

class peer_ports {
public:
    // maps: what lies in each of the BANKS banks. `crossings`: cycles to each of these and back, beside the bank's own.
    peer_ports(std::string name, const peer_region& commands, const peer_region& weights,
               const peer_region (&maps)[BANKS], const sim::cycle_t (&crossings)[BANKS], sim::memory* memory)
        : name_(std::move(name)), commands_(reinterpret_cast<uint32_t*>(commands.data)), weights_(beats_of(weights)) {
        settle(commands_, "commands", commands, LINE_BYTES / 4, memory);
        settle(weights_, "weights", weights, LINE_BEATS, memory, WEIGHT_BURSTS);
        for (int b = 0; b < BANKS; b++) {
            peer_region far = maps[b];
            if (memory) far.bank = memory->route(std::make_unique<sim::distant_bank>(far.bank, crossings[b]));
            const std::string bank = "[" + std::to_string(b) + "]";
            input_.emplace_back(beats_of(far));
            residual_.emplace_back(beats_of(far));
            output_.emplace_back(far.data);
            settle(input_.back(), "input" + bank, far, LINE_BEATS, memory);
            settle(residual_.back(), "residual" + bank, far, LINE_BEATS, memory);
            settle(output_.back(), "output" + bank, far, 1, memory);
        }
    }
    const std::string& name() const { return name_; }
    void run(uint32_t count, peer_stream& to_peers, peer_stream& from_peers) {
        const auto banks = std::make_index_sequence<BANKS>();
        run_list(commands_, count, weights_, all(input_, banks), all(residual_, banks), all(output_, banks), to_peers,
                 from_peers);
    }

private:
    // \tparam T Element of a port.
    // \tparam I Indices of the banks.
    template <class T, std::size_t... I>
    static bank_ports<T, BANKS> all(const std::vector<hls::burst_maxi<T>>& banks, std::index_sequence<I...>) {
        return bank_ports<T, BANKS>(banks[I]...);
    }
    static beat_t* beats_of(const peer_region& r) { return reinterpret_cast<beat_t*>(r.data); }
    // \tparam T Element of a port.
    template <class T>
    void settle(hls::burst_maxi<T>& p, const std::string& what, const peer_region& r, uint64_t beats,
                sim::memory* memory, uint32_t outstanding = 16) {
        sim::bind(p, {name_ + "/" + what, r.lines * beats, r.address, 64, outstanding}, memory, r.bank);
    }

    std::string name_;
    command_port_t commands_;
    weight_port_t weights_;
    std::vector<hls::burst_maxi<beat_t>> input_, residual_;
    std::vector<hls::burst_maxi<line_t>> output_;
};

// All CUs and the kernel of their barrier, each with a list of `count` commands.
inline void run_together(std::vector<peer_ports>& cus, uint32_t count) {
    peer_stream to_barrier[CUS], from_barrier[CUS];
    sim::region card("card");
    for (std::size_t cu = 0; cu < cus.size(); cu++)
        card.run(cus[cu].name().c_str(), [&, cu] { cus[cu].run(count, to_barrier[cu], from_barrier[cu]); });
    card.run("barrier", [&] { barrier<CUS>(to_barrier, count, from_barrier); });
}

}  // namespace engine
#endif
