// Several CUs that share a network on the card of a platform, for whoever counts cycles: the maps are spread over the first BANKS
// banks, and each CU has its commands and its weights in a bank of its own.
#pragma once
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "memory_generated.hpp"
#include "peer_ports.hpp"
#include "sim/card.hpp"

#if ENGINE_CUS > 1

namespace engine {

// A guess: cycles to the next region of the chip and back, through a register slice on each side.
constexpr sim::cycle_t CROSSING = 8;

// What each bank holds of a region of maps, as copies.
class paged_maps {
public:
    paged_maps(line_t* region, uint64_t lines) : region_(region), lines_(lines) {
        const uint64_t pages = (lines + PAGE - 1) / PAGE;
        for (std::vector<line_t>& bank : banks_) bank.resize((pages + BANKS - 1) / BANKS * PAGE);
        for (uint64_t page = 0; page < pages; page++) std::copy_n(region_ + page * PAGE, used(page), place(page));
    }
    // Back into the region.
    void gather() {
        for (uint64_t page = 0; page * PAGE < lines_; page++)
            std::copy_n(place(page), used(page), region_ + page * PAGE);
    }
    line_t* bank(std::size_t b) { return banks_[b].data(); }
    uint64_t bank_lines() const { return banks_[0].size(); }

private:
    static constexpr uint64_t PAGE = PAGE_BYTES / LINE_BYTES;  // lines
    line_t* place(uint64_t page) { return banks_[page % BANKS].data() + page / BANKS * PAGE; }
    uint64_t used(uint64_t page) const { return std::min(PAGE, lines_ - page * PAGE); }

    line_t* region_;
    uint64_t lines_;
    std::vector<line_t> banks_[BANKS];
};

// Runs a list of `count` commands for each CU. Weights, in lines, may be the same for all.
inline void run_on_card(line_t* const (&commands)[CUS], uint32_t count, line_t* maps, uint64_t map_lines,
                        line_t* const (&weights)[CUS], const uint64_t (&weight_lines)[CUS], sim::card_memory& memory) {
    constexpr std::size_t PLACES = sizeof sim::platform::banks / sizeof *sim::platform::banks;
    const auto place_of = [](std::size_t bank) -> const sim::bank_place& {
        return sim::platform::banks[bank % PLACES];
    };
    paged_maps pages(maps, map_lines);
    std::vector<peer_ports> cus;
    for (std::size_t cu = 0; cu < CUS; cu++) {
        const sim::bank_place& own = place_of(cu);
        const uint64_t of_weights = own.base + own.bytes / 2, of_commands = of_weights + own.bytes / 4;
        peer_region of_banks[BANKS];
        sim::cycle_t crossings[BANKS];
        for (std::size_t b = 0; b < BANKS; b++) {
            of_banks[b] = {pages.bank(b), pages.bank_lines(), place_of(b).base, memory.holding(place_of(b).base)};
            crossings[b] = CROSSING * (b > cu ? b - cu : cu - b);
        }
        cus.emplace_back("engine_" + std::to_string(cu + 1),
                         peer_region{commands[cu], count * uint64_t{4}, of_commands, memory.holding(of_commands)},
                         peer_region{weights[cu], weight_lines[cu], of_weights, memory.holding(of_weights)}, of_banks,
                         crossings, &memory);
    }
    run_together(cus, count);
    pages.gather();
}

}  // namespace engine
#endif
