// Depths of FIFOs: the smallest that keep the cycles, and those that resolve a deadlock. Each trial resolves the recorded
// events again. The program is not run again.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <utility>
#include <vector>

#include "network.hpp"

namespace sim::cosim {

class depth_search {
public:
    using depths = std::vector<std::uint32_t>;

    // total: cycles of the design, UNKNOWN if it does not end.
    depth_search(network& net, const depths& given, std::function<cycle()> total)
        : net_(net), given_(given), total_(std::move(total)) {}

    void apply(const depths& all) {
        for (std::size_t n = 0; n < all.size(); n++) net_.fifos[n].depth = all[n];
        net_.evaluate();
    }
    cycle cycles(const depths& all) {
        apply(all);
        return total_();
    }
    // Whether a search is cheap enough, or asked for.
    bool wanted() const {
        std::size_t events = 0;
        for (const lane& l : net_.lanes) events += l.events.size();
        return std::getenv("FPGA_COSIM_DEPTHS") || events * net_.fifos.size() < CHEAP;
    }

    // The smallest depths with the given depths' cycles: one FIFO after the other, so that all of them together keep them.
    // Returns the cycles with FIFOs of any depth.
    cycle smallest(depths& found) {
        depths open = given_;
        for (std::size_t n = 0; n < open.size(); n++)
            if (in_region(n)) open[n] = UNLIMITED;
        const cycle best = cycles(open);
        found = given_;
        const cycle goal = cycles(given_);
        const depths held = occupancies();
        for (std::size_t n = 0; n < found.size(); n++) {
            if (!in_region(n)) continue;
            found[n] = std::min(found[n], std::max(1u, held[n]));  // what it never held is not needed
            reduce(found, n, 1, [this, goal](const depths& all) { return cycles(all) == goal; });
        }
        return best;
    }

    // Depths with which the design ends; false if it does not with any.
    bool resolve(depths& found) {
        found = given_;
        for (std::size_t n = 0; n < found.size(); n++)
            if (in_region(n)) found[n] = UNLIMITED;
        if (cycles(found) == UNKNOWN) return false;
        for (std::size_t n = 0; n < found.size(); n++)
            if (in_region(n)) found[n] = std::max(given_[n], static_cast<std::uint32_t>(net_.fifos[n].written.size()));
        for (std::size_t n = 0; n < found.size(); n++)
            if (in_region(n) && found[n] > given_[n])
                reduce(found, n, given_[n], [this](const depths& all) { return cycles(all) != UNKNOWN; });
        return true;
    }

private:
    static constexpr std::size_t CHEAP = 10'000'000;

    bool in_region(std::size_t n) const { return !net_.fifos[n].region.empty(); }
    depths occupancies() const {
        depths found;
        for (const fifo_times& f : net_.fifos) found.push_back(network::occupancy(f));
        return found;
    }
    // The smallest depth of FIFO n, from `least` on, that is enough.
    template <class Enough>
    void reduce(depths& all, std::size_t n, std::uint32_t least, Enough enough) {
        std::uint32_t high = all[n], low = least;
        while (low < high) {
            all[n] = low + (high - low) / 2;
            if (enough(all))
                high = all[n];
            else
                low = all[n] + 1;
        }
        all[n] = high;
    }

    network& net_;
    const depths given_;
    std::function<cycle()> total_;
};

}  // namespace sim::cosim
