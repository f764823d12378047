// A bank that lies further away on the chip: each answer takes so many cycles more.
#pragma once
#include <cstdint>

#include "port.hpp"

namespace sim {

class distant_bank : public bank {
public:
    distant_bank(bank* near, cycle_t there_and_back) : near_(near), more_(there_and_back) {}
    void read(const request& r, cycle_t* arrivals) override {
        near_->read(r, arrivals);
        for (uint32_t i = 0; i < r.beats; i++) arrivals[i] += more_;
    }
    written write(const request& r) override {
        written w = near_->write(r);
        w.response += more_;
        return w;
    }
    bank_count counts() const override { return near_->counts(); }

private:
    bank* near_;
    cycle_t more_;
};

}  // namespace sim
