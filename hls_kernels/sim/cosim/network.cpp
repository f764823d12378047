// The order of events: see network.hpp.
#include "network.hpp"

namespace sim::cosim {

bool network::keep_order() {
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

void network::lift_depths() {
    for (fifo_times& f : fifos) f.depth = UNLIMITED;
    for (std::uint32_t n = 0; n < lanes.size(); n++) push(n);
    settle();
}

bool network::answer_first() {
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

bool network::evaluate() {
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
        l.ended = 0;
        l.queued = false;
        l.blocked_on = UINT32_MAX;
        push(n);
    }
    settle();
    bool whole = true;
    for (std::uint32_t n = 0; n < lanes.size(); n++) whole = whole && done(n);
    return whole;
}

std::uint32_t network::occupancy(const fifo_times& f) {
    std::size_t most = 0, gone = 0;
    for (std::size_t k = 0; k < f.written.size(); k++) {
        while (gone < f.read.size() && f.read[gone] < f.written[k]) gone++;
        most = std::max(most, k + 1 - std::min(gone, k + 1));
    }
    return static_cast<std::uint32_t>(most);
}

void network::settle() {
    while (!work_.empty()) {
        const std::uint32_t number = work_.back();
        work_.pop_back();
        lanes[number].queued = false;
        resolve(number);
    }
    force_ = false;
}

void network::resolve(std::uint32_t number) {
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

std::size_t network::group_index(const lane& l, std::size_t end) const {
    std::size_t same = 0;
    for (std::size_t n = l.next; n < end; n++)
        same += l.events[n].what == l.events[end].what && l.events[n].k == l.events[end].k;
    return same;
}

cycle network::earliest(const event& e, std::uint32_t number, std::size_t same) {
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

void network::commit(lane& l, const event& e, cycle time) {
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
            if (e.lag == 2 && l.ended < l.spans.size()) l.spans[l.ended++].second = time;
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

bool network::answered(std::uint32_t number, lane& l, std::size_t place, cycle time) {
    event& e = l.events[place];
    fifo_times& f = fifos[e.what];
    const std::size_t writes = f.written.size(), reads = f.read.size();
    asks_states = true;
    std::int64_t found = -1;
    if (e.asks == question::EMPTY) {
        f.reader = number;
        if (writes > reads)
            found = f.written[reads] + NEXT > time;
        else if (force_)
            found = 1;
        else
            f.waits_to_read = number;
    } else if (e.asks == question::FULL) {
        f.writer = number;
        if (writes < f.depth)
            found = 0;
        else if (writes - f.depth < reads)
            found = f.read[writes - f.depth] + NEXT > time;
        else if (force_)
            found = 1;
        else
            f.waits_to_write = number;
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

void network::count(lane& l, const event& e, cycle from, cycle to) {
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

void network::note(lane& l, const event& e, cycle from, cycle to) {
    if (!l.stalls.empty() && l.stalls.back().what == e.what && l.stalls.back().k == e.k &&
        from - l.stalls.back().to <= 1)
        l.stalls.back().to = to;
    else
        l.stalls.push_back({from, to, e.what, e.k});
}

}  // namespace sim::cosim
