// The banks of a card, for kernels whose ports are given device addresses.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dram.hpp"
#include "memory.hpp"

namespace sim {

struct bank_place {
    const char* tag;
    uint64_t base, bytes;
    const dram_settings* dram;
};

// The memory of a platform; memory_generated.hpp has its places and the kernel's clock:
//     sim::card_memory memory(sim::platform::banks, sim::platform::kernel_khz);
class card_memory : public memory {
public:
    template <std::size_t N_>
    card_memory(const bank_place (&places)[N_], uint32_t kernel_khz)
        : places_(places, places + N_), banks_(N_, nullptr), khz_(kernel_khz) {}

    // The bank that the device address lies in; it exists from the first time on that it is asked for.
    bank* holding(uint64_t address) {
        for (std::size_t i = 0; i < places_.size(); i++) {
            const bank_place& p = places_[i];
            if (address < p.base || address - p.base >= p.bytes) continue;
            if (!banks_[i]) banks_[i] = add(std::make_unique<dram_bank>(p.tag, *p.dram, khz_));
            return banks_[i];
        }
        throw error("no memory bank of the platform has the device address " + std::to_string(address) + ".");
    }

private:
    std::vector<bank_place> places_;
    std::vector<bank*> banks_;
    uint32_t khz_;
};

}  // namespace sim
