// What a counting build counts, as plain structures, and the same as JSON. All times are cycles of the kernel's clock.
#pragma once
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace sim {

using cycle_t = uint64_t;

struct stall_count {
    std::string cause;  // "'acts' empty", "'out' full", "gmem0 read data", ...
    cycle_t cycles = 0;
    const void* thing = nullptr;  // while the process runs: what it waited for, and why
    int why = 0;
};

// What a process did for one command, from sim::command(index) on. The time before the first one has the index -1.
struct command_count {
    int64_t index = -1;
    cycle_t first = 0, last = 0;  // the last cycle is the first one that is no longer this command's
    std::vector<stall_count> stalls;

    cycle_t stalled() const {
        cycle_t sum = 0;
        for (const stall_count& s : stalls) sum += s.cycles;
        return sum;
    }
    cycle_t busy() const { return last - first - stalled(); }
};

struct loop_count {
    const char* label = "";
    uint64_t runs = 0, iterations = 0;
    cycle_t cycles = 0;  // of all runs, stalls included
};

struct process_count {
    std::string process;
    cycle_t first = 0, last = 0;
    std::vector<command_count> commands;
    std::vector<loop_count> loops;
    std::vector<std::pair<std::string, uint64_t>> events;  // of sim::count, such as useful MACs

    // Stalls of all commands together.
    std::vector<stall_count> stalls() const {
        std::vector<stall_count> all;
        for (const command_count& c : commands)
            for (const stall_count& s : c.stalls) {
                std::size_t i = 0;
                while (i < all.size() && all[i].cause != s.cause) i++;
                if (i == all.size()) all.push_back({s.cause, 0});
                all[i].cycles += s.cycles;
            }
        return all;
    }
    cycle_t stalled() const {
        cycle_t sum = 0;
        for (const command_count& c : commands) sum += c.stalled();
        return sum;
    }
    cycle_t busy() const { return last - first - stalled(); }
};

// One direction of one m_axi port.
struct port_count {
    std::string port, bank;
    bool write = false;
    uint64_t requests = 0;  // read_request or write_request
    uint64_t bursts = 0, beats = 0, bytes = 0;
    std::vector<uint64_t> by_length;  // by_length[n]: AXI bursts of n beats
    cycle_t latency = 0;              // summed over bursts: from the address to the last beat, or the response
};

struct bank_count {
    std::string bank;
    uint64_t reads = 0, writes = 0;  // DRAM bursts
    uint64_t row_hits = 0, row_misses = 0, row_conflicts = 0, refreshes = 0, turnarounds = 0;
    cycle_t busy = 0;   // cycles in which the data bus moved data
    uint64_t late = 0;  // AXI bursts that were told after a later one had been granted
};

struct report {
    cycle_t first = 0, cycles = 0;  // when the first process began, and how long it was until the last one ended
    uint32_t clock_khz = 0;         // of the kernel; 0: nobody said
    std::vector<process_count> processes;
    std::vector<port_count> ports;
    std::vector<bank_count> banks;

    const process_count* process(const std::string& name) const {
        for (const process_count& p : processes)
            if (p.process == name) return &p;
        return nullptr;
    }
};

// ---- JSON ------------------------------------------------------------------------------------------------------------
namespace json {

inline std::string text(const std::string& s) {
    std::string out = "\"";
    for (const char c : s) {
        if (c == '"' || c == '\\') out += '\\';
        if (static_cast<unsigned char>(c) < 0x20) {
            char code[8];
            std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(c));
            out += code;
        } else {
            out += c;
        }
    }
    return out + '"';
}
template <class T_>
std::string field(const char* name, const T_& value) {
    return text(name) + ": " + std::to_string(value);
}
inline std::string field(const char* name, const std::string& value) { return text(name) + ": " + text(value); }
template <class T_, class F_>
std::string list(const std::vector<T_>& items, F_ each, const char* brackets = "[]") {
    std::string out(1, brackets[0]);
    for (const T_& item : items) out += (out.size() > 1 ? ", " : "") + each(item);
    return out + brackets[1];
}
inline std::string stalls(const std::vector<stall_count>& all) {
    return list(all, [](const stall_count& s) { return text(s.cause) + ": " + std::to_string(s.cycles); }, "{}");
}
inline std::string of(const command_count& c) {
    return "{" + field("index", c.index) + ", " + field("first", c.first) + ", " + field("last", c.last) + ", " +
           field("busy", c.busy()) + ", \"stalls\": " + stalls(c.stalls) + "}";
}
inline std::string of(const loop_count& l) {
    return "{" + field("label", std::string(l.label)) + ", " + field("runs", l.runs) + ", " +
           field("iterations", l.iterations) + ", " + field("cycles", l.cycles) + "}";
}
inline std::string of(const process_count& p) {
    return "{" + field("process", p.process) + ", " + field("first", p.first) + ", " + field("last", p.last) + ", " +
           field("busy", p.busy()) + ", \"stalls\": " + stalls(p.stalls()) + ", \"events\": " +
           list(
               p.events, [](const auto& e) { return text(e.first) + ": " + std::to_string(e.second); }, "{}") +
           ", \"loops\": " + list(p.loops, [](const loop_count& l) { return of(l); }) +
           ", \"commands\": " + list(p.commands, [](const command_count& c) { return of(c); }) + "}";
}
inline std::string of(const port_count& p) {
    std::string lengths = "{";
    for (std::size_t n = 0; n < p.by_length.size(); n++)
        if (p.by_length[n])
            lengths += (lengths.size() > 1 ? ", \"" : "\"") + std::to_string(n) +
                       "\": " + std::to_string(p.by_length[n]);
    return "{" + field("port", p.port) + ", " + field("bank", p.bank) + ", " +
           field("direction", std::string(p.write ? "write" : "read")) + ", " + field("requests", p.requests) + ", " +
           field("bursts", p.bursts) + ", " + field("beats", p.beats) + ", " + field("bytes", p.bytes) + ", " +
           field("latency", p.latency) + ", \"burst_lengths\": " + lengths + "}}";
}
inline std::string of(const bank_count& b) {
    return "{" + field("bank", b.bank) + ", " + field("reads", b.reads) + ", " + field("writes", b.writes) + ", " +
           field("row_hits", b.row_hits) + ", " + field("row_misses", b.row_misses) + ", " +
           field("row_conflicts", b.row_conflicts) + ", " + field("refreshes", b.refreshes) + ", " +
           field("turnarounds", b.turnarounds) + ", " + field("busy", b.busy) + ", " + field("late", b.late) + "}";
}
inline std::string of(const report& r) {
    return "{" + field("first", r.first) + ", " + field("cycles", r.cycles) + ", " + field("clock_khz", r.clock_khz) +
           ",\n\"processes\": " + list(r.processes, [](const process_count& p) { return "\n" + of(p); }) +
           ",\n\"ports\": " + list(r.ports, [](const port_count& p) { return "\n" + of(p); }) +
           ",\n\"banks\": " + list(r.banks, [](const bank_count& b) { return "\n" + of(b); }) + "}\n";
}

}  // namespace json
}  // namespace sim
