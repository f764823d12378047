// What a co-simulation has found, as JSON: written when the program ends.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "control.hpp"

namespace sim::cosim {

class depth_search;

class record : public idle_work {
public:
    struct call {
        std::uint32_t begin;
        std::vector<std::uint32_t> ends;
    };
    std::vector<call> calls;

    static record& of_run() {
        static record* of_program = new record;
        return *of_program;
    }
    void open(const char* top) {
        if (!top_.empty()) return;
        top_ = top;
        if (const char* times = std::getenv("FPGA_COSIM_MEMORY"))
            std::sscanf(times, "%ld,%ld,%ld,%ld", &least_.read, &least_.write, &most_.read, &most_.write);
        whole().net.memory = least_;
        std::atexit([] { of_run().write(); });
    }

    // No process can go on. Whoever asks for the state of a FIFO hears that nothing has come; without anybody who asks,
    // it is a deadlock.
    bool advance() override;

    void write();

private:
    // No depth lets the design go on. The program ends by an exception, which may pass no handler.
    bool give_up();

    struct waiting_lane {
        std::uint32_t lane, fifo;
        bool writes;
        unsigned line;
        const char* file;
    };

    // Cycles from the first call's begin to the last one's end; UNKNOWN if one does not end.
    cycle total() const;

    void note_waits();

    // The process at the other end of a FIFO: the one that has used it, or the only other one whose call names it.
    static std::uint32_t other_end(const fifo_times& f, const waiting_lane& w);
    // The processes that wait for each other: from one to the other end of the FIFO that it waits for, until one comes twice.
    std::vector<waiting_lane> circle() const;

    void write_deadlock(depth_search& search);

    void write_cycles(depth_search& search);

    void write_lanes();

    void write_fifos(const std::vector<std::uint32_t>& smallest, bool searched);

    std::string thing(std::uint32_t what, kind k) const;
    static const char* way(kind k) { return k == kind::READ ? "read" : k == kind::WRITE ? "write" : "memory"; }
    static std::string title(const fifo_times& f) { return f.name; }
    static std::string number(cycle n) { return std::to_string(n); }
    static std::string depth(std::uint32_t n) { return n == UNLIMITED ? "null" : std::to_string(n); }
    static std::string quoted(const std::string& text);

    static constexpr std::size_t MOST = 20000;  // spans and stalls of a process in the report
    std::string top_, text_;
    memory_times least_, most_;
    std::vector<std::uint32_t> depths_;
    std::vector<waiting_lane> waits_;
    bool deadlocked_ = false, for_ever_ = false, written_ = false;
};

}  // namespace sim::cosim
