// A channel of DDR4, or a pseudo channel of HBM2, behind its controller and the way there from the kernel's port.
//
// The controller takes bursts in the order in which they come, each cut into accesses of the DRAM's burst length. Rows stay
// open. It looks `queue` accesses ahead, opens their rows while data of others moves, and takes what is ready first.
// Counted: row hits, misses and conflicts (tRCD, tRP, tRAS, tWR, tRTP, tRRD, tFAW), bank groups (tCCD_S, tCCD_L), turnarounds
// of the bus (tWTR, CL, CWL), refresh of all banks (tRFC every tREFI), the width and clock of the link, and latencies.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "port.hpp"

namespace sim {

// Times in picoseconds. xclbin_build.memory makes these of a platform's [memory] tables, where the sources are named.
struct dram_settings {
    const char*
        map;  // of an address, from its low bits on, above those of an access: "g1 c5 b2 g1"; the rest is the row
    uint32_t access_bytes, queue;
    uint32_t clock, burst;  // of the command clock; the time of an access on the data bus
    uint32_t ccd_s, ccd_l, rcd, rp, ras, wr, rtp, wtr, rrd, faw, cl, cwl, rfc, refi;
    uint32_t read_hit,
        write_response;             // from the controller's port and back: data of an open row; the response to a write
    uint32_t path;                  // from the kernel's port to the controller's and back
    uint32_t link_bytes, link_khz;  // the data path between them, one for each direction of each port
};

class dram_bank : public bank {
public:
    // kernel_khz: the clock in whose cycles ports count.
    dram_bank(std::string name, const dram_settings& settings, uint32_t kernel_khz)
        : set_(settings),
          khz_(kernel_khz),
          beat_time_(1000000000u / settings.link_khz),
          next_refresh_(settings.refi),
          looked_at_(settings.queue, 0) {
        counts_.bank = std::move(name);
        unsigned group = 0, bank = 0, low = 0;
        for (const char* m = set_.map; *m; m += 2 + (m[2] == ' ')) {
            const unsigned bits = static_cast<unsigned>(m[1] - '0');
            if (*m == 'g') fields_.push_back({low, bits, group}), group += bits;
            if (*m == 'b') fields_.push_back({low, bits, 8 + bank}), bank += bits;
            low += bits;
        }
        row_at_ = low;
        group_bits_ = group;
        banks_.resize(std::size_t{1} << (group + bank));
    }

    void read(const request& r, cycle_t* arrivals) override {
        const uint64_t arrival = arrive(r);
        uint64_t done = 0;
        const uint64_t end = r.address + uint64_t{r.beats} * r.beat_bytes;
        uint64_t beat_end = r.address + r.beat_bytes;
        for (uint64_t a = r.address / set_.access_bytes * set_.access_bytes; a < end; a += set_.access_bytes) {
            done = serve(a, false, arrival) + set_.read_hit;
            for (; beat_end <= a + set_.access_bytes && beat_end <= end; beat_end += r.beat_bytes) {
                r.link.read = std::max(r.link.read + time_on_link(r.beat_bytes), done);
                *arrivals++ = cycle_from(r.link.read + set_.path - set_.path / 2);
            }
        }
    }
    written write(const request& r) override {
        uint64_t command = 0, beat_end = r.address, on_link = arrive(r);
        const uint64_t end = r.address + uint64_t{r.beats} * r.beat_bytes;
        for (uint64_t a = r.address / set_.access_bytes * set_.access_bytes; a < end; a += set_.access_bytes) {
            // All of an access' beats have come.
            for (; beat_end < std::min(end, a + set_.access_bytes); beat_end += r.beat_bytes)
                r.link.write = on_link = std::max(r.link.write, on_link) + time_on_link(r.beat_bytes);
            command = serve(a, true, on_link);
        }
        const uint64_t left = on_link - std::min(on_link, uint64_t{set_.path / 2});
        return {cycle_from(std::max(left, command)),
                cycle_from(command + set_.write_response + set_.path - set_.path / 2)};
    }
    bank_count counts() const override {
        bank_count c = counts_;
        c.busy = cycle_from(busy_);
        return c;
    }

private:
    struct one_bank {
        bool open = false;
        uint64_t row = 0;
        uint64_t column_from = 0;     // when its row can be read and written
        uint64_t precharge_from = 0;  // when it can be closed
        uint64_t activate_from = 0;   // when another one can be opened, if it is closed
    };
    struct field {
        unsigned low, bits, to;  // of the address; to: of the group's number, or 8 + of the bank's
    };

    uint64_t arrive(const request& r) {
        if (r.at < last_at_) counts_.late++;
        last_at_ = std::max(last_at_, r.at);
        // Exact, and without an overflow: r.at / khz_ milliseconds.
        return r.at / khz_ * 1000000000 + r.at % khz_ * 1000000000 / khz_ + set_.path / 2;
    }
    // The first cycle that does not begin before the time.
    cycle_t cycle_from(uint64_t time) const {
        const uint64_t rest = time % 1000000000 * khz_;
        return time / 1000000000 * khz_ + rest / 1000000000 + (rest % 1000000000 != 0);
    }
    uint64_t time_on_link(uint32_t bytes) const {
        return uint64_t{(bytes + set_.link_bytes - 1) / set_.link_bytes} * beat_time_;
    }

    // The time of the column command of an access that comes at `arrival`.
    uint64_t serve(uint64_t address, bool write, uint64_t arrival) {
        const uint64_t access = address / set_.access_bytes;
        unsigned group = 0, in_group = 0;
        for (const field& f : fields_) {
            const unsigned value = static_cast<unsigned>(access >> f.low) & ((1u << f.bits) - 1);
            if (f.to < 8) group |= value << f.to;
            if (f.to >= 8) in_group |= value << (f.to - 8);
        }
        const uint64_t row = access >> row_at_;
        one_bank& b = banks_[in_group << group_bits_ | group];
        uint64_t& looked_at = looked_at_[accesses_ % set_.queue];
        const uint64_t seen = std::max(arrival, looked_at);  // when the controller begins to prepare for it

        uint64_t command, activate;
        for (;;) {
            activate = 0;
            uint64_t ready = std::max(seen, b.column_from);
            if (!b.open || b.row != row) {
                const uint64_t closed = b.open ? std::max(seen, b.precharge_from) + set_.rp
                                               : std::max(seen, b.activate_from);
                activate = find_activation(closed);
                ready = activate + set_.rcd;
            }
            command = find_slot(ready, group, write);
            if (command < next_refresh_) break;
            refresh(command);
        }

        if (b.open && b.row == row) counts_.row_hits++;
        if (b.open && b.row != row) counts_.row_conflicts++;
        if (!b.open) counts_.row_misses++;
        (write ? counts_.writes : counts_.reads)++;
        if (activate) {
            b.open = true;
            b.row = row;
            b.column_from = activate + set_.rcd;
            b.precharge_from = activate + set_.ras;
            activations_.insert(activations_.begin() + static_cast<std::ptrdiff_t>(activation_), activate);
            if (activations_.size() > set_.queue + 4) activations_.erase(activations_.begin());
        }
        b.precharge_from = std::max(b.precharge_from,
                                    write ? command + set_.cwl + set_.burst + set_.wr : command + set_.rtp);
        take_slot({command, group, write});
        looked_at = command;
        accesses_++;
        busy_ += set_.burst;
        return command;
    }
    // ---- the bus: commands of the last accesses, in the order of their times ---------------------------------------
    struct slot {
        uint64_t time;
        unsigned group;
        bool write;
    };
    // How long after one command the other can come.
    uint64_t gap(const slot& first, unsigned group, bool write) const {
        const uint64_t column = first.group == group ? set_.ccd_l : set_.ccd_s;
        if (write && !first.write) return std::max<uint64_t>(column, set_.cl + set_.burst + 2 * set_.clock - set_.cwl);
        if (!write && first.write) return std::max<uint64_t>(column, set_.cwl + set_.burst + set_.wtr);
        return column;
    }
    // The first time from `ready` on in which a command fits between the others: the controller takes accesses that are
    // ready before those that wait for their rows.
    uint64_t find_slot(uint64_t ready, unsigned group, bool write) {
        for (slot_ = 0;; slot_++) {
            uint64_t time = ready;
            if (slot_) time = std::max(time, slots_[slot_ - 1].time + gap(slots_[slot_ - 1], group, write));
            if (slot_ == slots_.size()) return time;
            const slot& next = slots_[slot_];
            // The first one is the last of those before, behind which none comes.
            if (slot_ && time + gap({time, group, write}, next.group, next.write) <= next.time) return time;
        }
    }
    void take_slot(const slot& s) {
        const std::size_t at = slot_;
        slots_.insert(slots_.begin() + static_cast<std::ptrdiff_t>(at), s);
        if (at && slots_[at - 1].write != s.write) counts_.turnarounds++;
        if (at + 1 < slots_.size() && slots_[at + 1].write != s.write) counts_.turnarounds++;
        if (slots_.size() > set_.queue) slots_.erase(slots_.begin());
    }

    // The first time from `ready` on in which a row can be opened: tRRD from the others, and no five of them within tFAW.
    uint64_t find_activation(uint64_t ready) {
        const std::vector<uint64_t>& all = activations_;
        for (activation_ = all.size() < 4 ? 0 : 4;; activation_++) {
            const std::size_t at = activation_;
            uint64_t time = ready;
            if (at) time = std::max(time, all[at - 1] + set_.rrd);
            if (at >= 4) time = std::max(time, all[at - 4] + set_.faw);
            if (at == all.size()) return time;
            bool fits = time + set_.rrd <= all[at];
            for (std::size_t behind = 0; fits && behind < 4 && at + behind < all.size(); behind++) {
                const std::size_t before = 3 - behind;  // with this one and `behind` + 1 behind it they are five
                if (before) fits = at < before || all[at + behind] >= all[at - before] + set_.faw;
                if (!before) fits = all[at + behind] >= time + set_.faw;
            }
            if (fits) return time;
        }
    }

    // All refreshes that fall due until `time`; those of an idle channel cost nothing but its open rows.
    void refresh(uint64_t time) {
        const uint64_t missed = (time - next_refresh_) / set_.refi;
        counts_.refreshes += missed + 1;
        const uint64_t due = next_refresh_ + missed * set_.refi;
        uint64_t begin = due;
        for (const one_bank& b : banks_)
            if (b.open) begin = std::max(begin, b.precharge_from);
        for (one_bank& b : banks_) {
            b.open = false;
            b.activate_from = begin + set_.rp + set_.rfc;
        }
        next_refresh_ = due + set_.refi;
    }

    const dram_settings set_;
    const uint32_t khz_;
    const uint64_t beat_time_;
    std::vector<field> fields_;
    unsigned row_at_, group_bits_;
    std::vector<one_bank> banks_;
    bank_count counts_;
    cycle_t last_at_ = 0;
    uint64_t next_refresh_, accesses_ = 0, busy_ = 0;
    std::vector<uint64_t> looked_at_;    // commands of the last `queue` accesses
    std::vector<uint64_t> activations_;  // when the last rows were opened, rising
    std::size_t activation_ = 0;         // where the one goes that find_activation has found
    std::vector<slot> slots_;
    std::size_t slot_ = 0;  // where the command goes that find_slot has found
};

}  // namespace sim
