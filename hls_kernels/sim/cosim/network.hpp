// When each event of a design happens: reads and writes of FIFOs, beats of ports, starts and ends of processes.
//
// A lane is the control of one process. Its events have static times: cycles since its start without any wait. Events of
// the same static time share an enable, and wait for each other. A wait shifts all later events of the lane. Events wait
// for those of other lanes alone, so lanes are resolved in any order, with one result.
//
// A read of element k waits for the cycle behind its write.
// A write of element k waits for the cycle behind the read of element k - depth.
// An await waits for the cycle of its token, plus a lag.
// A beat of a port waits for the cycle in which the memory gives it.
//
// All events are kept. `evaluate` resolves them again for other depths and other memories, without running the program.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace sim::cosim {

using cycle = std::int64_t;
constexpr cycle UNKNOWN = -1, FOREVER = INT64_MAX / 4;
constexpr std::uint32_t UNLIMITED = UINT32_MAX;

enum class kind : std::uint8_t { READ, WRITE, ASK, AWAIT, POST, REQUEST, BEAT };
enum class question : std::uint8_t { EMPTY, FULL, SIZE };

struct event {
    cycle at;            // static time
    std::uint32_t what;  // FIFO, token or port
    kind k;
    question asks;
    std::uint16_t lag;
};

// The times of one FIFO's elements.
struct fifo_times {
    std::string name, region, variable;
    std::uint32_t depth = UNLIMITED;
    bool in_order = false;  // reads keep the order of the source (keep_order)
    std::vector<cycle> written, read;
    std::uint32_t reader = UINT32_MAX, writer = UINT32_MAX;  // lanes, for reports
    std::uint32_t waits_to_read = UINT32_MAX, waits_to_write = UINT32_MAX;
    unsigned read_line = 0, write_line = 0;
    const char *read_file = "", *write_file = "";
};

// A direction of an m_axi port. Beats arrive `latency` cycles behind their request, one each `interval` cycles.
struct port_times {
    std::string name;
    bool write = false;
    double interval = 1;
    cycle requested = 0;
    std::uint64_t beats = 0;
};

struct wait_time {
    std::uint32_t what;
    kind k;
    cycle cycles;
};
struct stall {
    cycle from, to;
    std::uint32_t what;
    kind k;
};

struct lane {
    std::string name, region;
    std::string names;          // words of its call, each between spaces
    std::vector<event> events;  // from `next` on sorted by static time
    std::size_t next = 0;
    cycle floor = 0;    // no event will be added before it
    cycle delay = 0;    // what waits have added
    cycle settled = 0;  // static time of the last resolved event
    std::vector<wait_time> waits;
    std::vector<stall> stalls;
    std::vector<std::pair<cycle, cycle>> spans;  // of its runs
    std::size_t ended = 0;                       // runs that have ended
    bool asking = false;                         // the head of `events` is a question whose answer is not known yet
    bool queued = false;
    cycle asked_at = 0;
    std::int64_t answer = -1;
    std::uint32_t blocked_on = UINT32_MAX;  // FIFO or token of the head, while it waits
    kind blocked_by = kind::READ;
};

// Assumed memory, in cycles from a request to its first beat, and from the last beat of a write to its response.
struct memory_times {
    cycle read = 0, write = 0;
};

class network {
public:
    std::vector<fifo_times> fifos;
    std::vector<port_times> ports;
    std::vector<lane> lanes;
    std::vector<cycle> tokens;
    memory_times memory;
    std::vector<std::uint32_t> resumed;  // lanes that went on since the caller looked last
    bool asks_states = false;

    std::uint32_t new_token() {
        tokens.push_back(UNKNOWN);
        token_waits_.emplace_back();
        return static_cast<std::uint32_t>(tokens.size() - 1);
    }
    std::uint32_t new_lane(std::string name, std::string region) {
        lanes.emplace_back();
        lanes.back().name = std::move(name);
        lanes.back().region = std::move(region);
        return static_cast<std::uint32_t>(lanes.size() - 1);
    }

    // Adds an event of a lane. A time in front of resolved events becomes that of the last of them.
    void add(std::uint32_t number, event e) {
        lane& l = lanes[number];
        e.at = std::max(e.at, l.settled);
        auto place = l.events.end();
        while (place != l.events.begin() + static_cast<std::ptrdiff_t>(l.next) && (place - 1)->at > e.at) --place;
        l.events.insert(place, e);
    }
    void raise_floor(std::uint32_t number, cycle floor) {
        lane& l = lanes[number];
        l.floor = std::max(l.floor, floor);
        if (l.next < l.events.size() && l.events[l.next].at < l.floor && l.blocked_on == UINT32_MAX) {
            push(number);
            settle();
        }
    }
    // Resolves what is there up to and with this static time.
    void resolve_to(std::uint32_t number, cycle at) { raise_floor(number, at + 1); }
    void resolve_head(std::uint32_t number) {
        push(number);
        settle();
    }
    bool done(std::uint32_t number) const { return lanes[number].next == lanes[number].events.size(); }

    // Among the lanes whose question nobody can answer any more, the first gets "nothing has come". False without one.
    bool answer_first();

    // A read may have a time in front of a write of the same iteration that the source has before it (its `lag` says how
    // far). Where a lane waits for such a read, the order of the source counts for this FIFO. False without one.
    bool keep_order();
    // Lets all FIFOs hold what comes, so that lanes that wait for a place go on.
    void lift_depths();

    // From the first event on, with what depths and memory now are; true if all lanes come to their end.
    bool evaluate();

    // The most elements that a FIFO has held; what is read in the cycle of a write leaves before.
    static std::uint32_t occupancy(const fifo_times& f);

private:
    static constexpr cycle NEXT = 1;  // flags of a FIFO are registers

    void push(std::uint32_t number) {
        if (lanes[number].queued) return;
        lanes[number].queued = true;
        work_.push_back(number);
    }
    void settle();

    void resolve(std::uint32_t number);

    // How many events of the same FIFO and direction the group has in front of this one.
    std::size_t group_index(const lane& l, std::size_t end) const;

    cycle earliest(const event& e, std::uint32_t number, std::size_t same);

    void commit(lane& l, const event& e, cycle time);

    // Decides the state query at `place` in cycle `time`; false if it has to wait.
    bool answered(std::uint32_t number, lane& l, std::size_t place, cycle time);

    void count(lane& l, const event& e, cycle from, cycle to);
    static void note(lane& l, const event& e, cycle from, cycle to);

    std::vector<std::uint32_t> work_;
    std::vector<std::vector<std::uint32_t>> token_waits_;
    bool force_ = false, replay_ = false;
};

}  // namespace sim::cosim
