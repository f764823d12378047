// The memories behind the ports. When no process can run, the burst that leaves its port first is granted, and its bank says
// when its beats arrive. Requests of several ports to one bank so come in the order of their cycles.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "port.hpp"

namespace sim {

// A bank that answers after a fixed time and is never busy: for benches, whose cycles are then easily told.
class ideal_bank : public bank {
public:
    ideal_bank(std::string name, cycle_t latency) : name_(std::move(name)), latency_(latency) {}
    // Beat i arrives `latency` cycles after the address, and i more.
    void read(const request& r, cycle_t* arrivals) override {
        for (uint32_t i = 0; i < r.beats; i++) arrivals[i] = r.at + latency_ + i;
        reads_++;
    }
    // The burst takes a cycle a beat, and the response comes `latency` cycles later.
    written write(const request& r) override {
        writes_++;
        return {r.at + r.beats, r.at + r.beats + latency_};
    }
    bank_count counts() const override {
        bank_count c;
        c.bank = name_;
        c.reads = reads_;
        c.writes = writes_;
        return c;
    }

private:
    std::string name_;
    cycle_t latency_;
    uint64_t reads_ = 0, writes_ = 0;
};

// All banks and ports of one thread's simulation, for as long as the object lives.
class memory : public idle_work {
public:
    memory() : before_(fibers().get_idle_work()) {
        self();
        fibers().set_idle_work(this);
    }
    ~memory() override { fibers().set_idle_work(before_); }
    memory(const memory&) = delete;
    memory& operator=(const memory&) = delete;

    bank* add(std::unique_ptr<bank> b) {
        banks_.push_back(std::move(b));
        return banks_.back().get();
    }
    // A stage in front of the banks.
    bank* route(std::unique_ptr<bank> b) {
        routes_.push_back(std::move(b));
        return routes_.back().get();
    }
    void attach(std::shared_ptr<port> p) { ports_.push_back(std::move(p)); }

    bool advance() override {
        port* first = nullptr;
        bool write = false;
        cycle_t cycle = port::NEVER;
        for (const std::shared_ptr<port>& p : ports_)
            for (const bool direction : {false, true}) {
                const cycle_t at = p->next_issue(direction);
                if (at < cycle) {
                    cycle = at;
                    first = p.get();
                    write = direction;
                }
            }
        if (!first) return false;
        first->grant(write);
        return true;
    }
    void count(report& r) const {
        for (const std::shared_ptr<port>& p : ports_)
            for (const bool write : {false, true})
                if (p->used(write)) r.ports.push_back(p->counts(write));
        for (const std::unique_ptr<bank>& b : banks_) r.banks.push_back(b->counts());
    }

private:
    idle_work* before_;
    std::vector<std::unique_ptr<bank>> banks_, routes_;
    std::vector<std::shared_ptr<port>> ports_;
};

}  // namespace sim
