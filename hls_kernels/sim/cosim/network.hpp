// When each event of a design happens: reads and writes of FIFOs, beats of ports, starts and ends of processes.
//
// A lane is the control of one process. Its events have static times: cycles since its start without any wait. Events of
// the same static time share an enable, and wait for each other. A wait shifts all later events of the lane. Events wait
// for those of other lanes alone, so lanes are resolved in any order, with one result.
//
//   read of element k      from the cycle behind its write
//   write of element k     from the cycle behind the read of element k - depth
//   await of a token       from the token's cycle, plus a lag
//   beat of a port         from the cycle in which the memory gives it
//
// All events are kept. `evaluate` resolves them again for other depths and other memories, without running the program.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstddef>
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
    std::string names;  // words of its call, each between spaces
    std::vector<event> events;  // from `next` on sorted by static time
    std::size_t next = 0;
    cycle floor = 0;    // no event will be added before it
    cycle delay = 0;    // what waits have added
    cycle settled = 0;  // static time of the last resolved event
    std::vector<wait_time> waits;
    std::vector<stall> stalls;
    std::vector<std::pair<cycle, cycle>> spans;  // of its runs
    bool asking = false;      // the head of `events` is a question whose answer is not known yet
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

    // Adds an event of a lane; times in front of what is resolved already are moved behind it.
    void add(std::uint32_t number, event e) {
        lane& l = lanes[number];
        e.at = std::max(e.at, l.settled);
        auto place = l.events.end();
        while (place != l.events.begin() + static_cast<std::ptrdiff_t>(l.next) && (place - 1)->at > e.at) --place;
        l.events.insert(place, e);
    }
    void raise_floor(std::uint32_t number, cycle floor) {
        lane& l = lanes[number];
        if (floor <= l.floor) return;
        l.floor = floor;
        if (l.next < l.events.size() && l.events[l.next].at < floor) {
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
    bool answer_first() {
        lane* first = nullptr;
        std::uint32_t number = 0;
        for (std::uint32_t n = 0; n < lanes.size(); n++)
            if (lanes[n].asking && (!first || lanes[n].asked_at < first->asked_at)) first = &lanes[number = n];
        if (!first) return false;
        force_ = true;
        push(number);
        settle();
        return true;
    }

    // A read may have a time in front of a write of the same iteration that the source has before it (its `lag` says how
    // far). Where a lane waits for such a read, the order of the source counts for this FIFO. False without one.
    bool keep_order() {
        bool moved = false;
        for (std::uint32_t n = 0; n < lanes.size(); n++) {
            lane& l = lanes[n];
            if (l.next == l.events.size() || l.blocked_on == UINT32_MAX || l.blocked_by != kind::READ) continue;
            fifo_times& f = fifos[l.blocked_on];
            if (f.in_order) continue;
            const auto begin = l.events.begin() + static_cast<std::ptrdiff_t>(l.next);
            const auto late = [&l](const event& e) { return e.k == kind::READ && e.what == l.blocked_on && e.lag; };
            if (std::none_of(begin, l.events.end(), late)) continue;
            for (auto e = begin; e != l.events.end(); ++e)
                if (late(*e)) e->at += std::exchange(e->lag, std::uint16_t{0});
            std::stable_sort(begin, l.events.end(), [](const event& a, const event& b) { return a.at < b.at; });
            f.in_order = moved = true;
            push(n);
        }
        settle();
        return moved;
    }
    // Lets all FIFOs hold what comes, so that lanes that wait for a place go on.
    void lift_depths() {
        for (fifo_times& f : fifos) f.depth = UNLIMITED;
        for (std::uint32_t n = 0; n < lanes.size(); n++) push(n);
        settle();
    }

    // From the first event on, with what depths and memory now are; true if all lanes come to their end.
    bool evaluate() {
        for (fifo_times& f : fifos) {
            f.written.clear();
            f.read.clear();
            f.waits_to_read = f.waits_to_write = UINT32_MAX;
        }
        std::fill(tokens.begin(), tokens.end(), UNKNOWN);
        for (auto& waiting : token_waits_) waiting.clear();
        for (port_times& p : ports) p.beats = 0, p.requested = 0;
        replay_ = true;
        for (std::uint32_t n = 0; n < lanes.size(); n++) {
            lane& l = lanes[n];
            l.next = 0;
            l.delay = l.settled = 0;
            l.waits.clear();
            l.stalls.clear();
            l.spans.clear();
            l.queued = false;
            l.blocked_on = UINT32_MAX;
            push(n);
        }
        settle();
        bool whole = true;
        for (std::uint32_t n = 0; n < lanes.size(); n++) whole = whole && done(n);
        return whole;
    }

    // The most elements that a FIFO has held; what is read in the cycle of a write leaves before.
    static std::uint32_t occupancy(const fifo_times& f) {
        std::size_t most = 0, gone = 0;
        for (std::size_t k = 0; k < f.written.size(); k++) {
            while (gone < f.read.size() && f.read[gone] < f.written[k]) gone++;
            most = std::max(most, k + 1 - std::min(gone, k + 1));
        }
        return static_cast<std::uint32_t>(most);
    }

private:
    static constexpr cycle NEXT = 1;  // flags of a FIFO are registers

    void push(std::uint32_t number) {
        if (lanes[number].queued) return;
        lanes[number].queued = true;
        work_.push_back(number);
    }
    void settle() {
        while (!work_.empty()) {
            const std::uint32_t number = work_.back();
            work_.pop_back();
            lanes[number].queued = false;
            resolve(number);
        }
        force_ = false;
    }

    void resolve(std::uint32_t number) {
        lane& l = lanes[number];
        bool moved = false;
        while (l.next < l.events.size() && (replay_ || l.events[l.next].at < l.floor)) {
            const cycle at = l.events[l.next].at;
            std::size_t end = l.next;
            cycle time = at + l.delay, cause_time = time;
            const event* cause = nullptr;
            bool waits = false;
            for (; end < l.events.size() && l.events[end].at == at; end++) {
                const event& e = l.events[end];
                const cycle from = earliest(e, number, group_index(l, end));
                if (from == UNKNOWN) {
                    waits = true;
                    l.blocked_on = e.what;
                    l.blocked_by = e.k;
                    break;
                }
                if (from > time) time = from, cause = &e;
                if (e.k == kind::ASK || e.k == kind::POST) {  // what follows depends on the answer, or on others
                    end++;
                    break;
                }
            }
            if (waits) break;
            if (cause) count(l, *cause, cause_time, time);
            l.delay += time - cause_time;
            l.settled = at;
            if (l.events[end - 1].k == kind::ASK && !replay_ && !answered(number, l, end - 1, time)) {
                // What lies in front of the question has its time, and the question is asked again.
                for (std::size_t n = l.next; n + 1 < end; n++) commit(l, l.events[n], time);
                moved = moved || end - 1 > l.next;
                l.next = end - 1;
                break;
            }
            for (std::size_t n = l.next; n < end; n++) commit(l, l.events[n], time);
            l.next = end;
            l.blocked_on = UINT32_MAX;
            moved = true;
        }
        if (moved) resumed.push_back(number);
    }

    // How many events of the same FIFO and direction the group has in front of this one.
    std::size_t group_index(const lane& l, std::size_t end) const {
        std::size_t same = 0;
        for (std::size_t n = l.next; n < end; n++)
            same += l.events[n].what == l.events[end].what && l.events[n].k == l.events[end].k;
        return same;
    }

    cycle earliest(const event& e, std::uint32_t number, std::size_t same) {
        switch (e.k) {
            case kind::READ: {
                fifo_times& f = fifos[e.what];
                f.reader = number;
                const std::size_t k = f.read.size() + same;
                if (k < f.written.size()) return f.written[k] + NEXT;
                f.waits_to_read = number;
                return UNKNOWN;
            }
            case kind::WRITE: {
                fifo_times& f = fifos[e.what];
                f.writer = number;
                const std::size_t k = f.written.size() + same;
                if (k < f.depth) return 0;
                if (k - f.depth < f.read.size()) return f.read[k - f.depth] + NEXT;
                f.waits_to_write = number;
                return UNKNOWN;
            }
            case kind::AWAIT:
                if (tokens[e.what] != UNKNOWN) return tokens[e.what] + e.lag;
                token_waits_[e.what].push_back(number);
                return UNKNOWN;
            case kind::BEAT: {
                const port_times& p = ports[e.what];
                if (p.write) return 0;
                return p.requested + memory.read + static_cast<cycle>(static_cast<double>(p.beats + same) * p.interval);
            }
            case kind::REQUEST:
                // Behind a write's last beat: its response.
                return ports[e.what].write && e.lag ? ports[e.what].requested + memory.write : 0;
            case kind::ASK:
            case kind::POST: return 0;
        }
        return 0;
    }

    void commit(lane& l, const event& e, cycle time) {
        switch (e.k) {
            case kind::READ: {
                fifo_times& f = fifos[e.what];
                f.read.push_back(time);
                if (f.waits_to_write != UINT32_MAX) push(std::exchange(f.waits_to_write, UINT32_MAX));
                break;
            }
            case kind::WRITE: {
                fifo_times& f = fifos[e.what];
                f.written.push_back(time);
                if (f.waits_to_read != UINT32_MAX) push(std::exchange(f.waits_to_read, UINT32_MAX));
                break;
            }
            case kind::POST:
                tokens[e.what] = time;
                if (e.lag == 1) l.spans.emplace_back(time, time);  // a start
                if (e.lag == 2 && !l.spans.empty()) l.spans.back().second = time;
                for (const std::uint32_t number : token_waits_[e.what]) push(number);
                token_waits_[e.what].clear();
                break;
            case kind::REQUEST:
                ports[e.what].requested = time;
                ports[e.what].beats = 0;
                break;
            case kind::BEAT:
                ports[e.what].beats++;
                if (ports[e.what].write) ports[e.what].requested = time;
                break;
            case kind::ASK:
            case kind::AWAIT: break;
        }
    }

    // The answer to the question at `place`, of which `time` is the cycle.
    bool answered(std::uint32_t number, lane& l, std::size_t place, cycle time) {
        event& e = l.events[place];
        fifo_times& f = fifos[e.what];
        const std::size_t writes = f.written.size(), reads = f.read.size();
        asks_states = true;
        std::int64_t found = -1;
        if (e.asks == question::EMPTY) {
            f.reader = number;
            if (writes > reads) found = f.written[reads] + NEXT > time;
            else if (force_) found = 1;
            else f.waits_to_read = number;
        } else if (e.asks == question::FULL) {
            f.writer = number;
            if (writes < f.depth) found = 0;
            else if (writes - f.depth < reads) found = f.read[writes - f.depth] + NEXT > time;
            else if (force_) found = 1;
            else f.waits_to_write = number;
        } else {
            if (force_ || (writes && f.written.back() + NEXT > time)) {
                found = 0;
                for (std::size_t k = reads; k < writes; k++) found += f.written[k] + NEXT <= time;
            } else {
                f.waits_to_read = number;
            }
        }
        l.asking = found < 0;
        l.asked_at = time;
        if (found < 0) return false;
        if (force_) force_ = false;
        l.answer = found;
        return true;
    }

    void count(lane& l, const event& e, cycle from, cycle to) {
        if (e.k == kind::AWAIT) return;  // not started yet, or waiting for its own processes
        for (wait_time& w : l.waits)
            if (w.what == e.what && w.k == e.k) {
                w.cycles += to - from;
                note(l, e, from, to);
                return;
            }
        l.waits.push_back({e.what, e.k, to - from});
        note(l, e, from, to);
    }
    static void note(lane& l, const event& e, cycle from, cycle to) {
        if (!l.stalls.empty() && l.stalls.back().what == e.what && l.stalls.back().k == e.k &&
            from - l.stalls.back().to <= 1)
            l.stalls.back().to = to;
        else
            l.stalls.push_back({from, to, e.what, e.k});
    }

    std::vector<std::uint32_t> work_;
    std::vector<std::vector<std::uint32_t>> token_waits_;
    bool force_ = false, replay_ = false;
};

}  // namespace sim::cosim
