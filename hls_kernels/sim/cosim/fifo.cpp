// Reads and writes of a stream as events: see fifo.hpp.
#include "fifo.hpp"

namespace sim::cosim {

void fifo::limit(const std::string& region, std::size_t depth, const std::string& name) {
    if (name_.empty()) name_ = name;
    simulation& all = whole();
    const std::string key = region + "/" + name;
    const auto known = all.fifos.find(key);
    if (known != all.fifos.end()) {
        number_ = known->second;
        return;
    }
    number_ = static_cast<std::uint32_t>(all.net.fifos.size());
    all.fifos[key] = number_;
    all.net.fifos.emplace_back();
    all.net.fifos.back().name = name_;
    all.net.fifos.back().region = region;
    all.net.fifos.back().variable = name.substr(0, name.find_first_of("[."));
    all.net.fifos.back().depth = static_cast<std::uint32_t>(depth);
}

void fifo::await_element(site from) {
    control* c = current();
    cycle at = c ? c->access_time(from.line, 'R', last_read_) : 0;
    if (filled_ == freed_) await_value(c, at, from);
    if (!c) return;
    cycle late = 0;  // by which it would have to wait for a write of the same iteration that the source has before it
    if (c->inner && c->inner->pipeline() && c->written >= c->inner->pipeline()->at()) late = c->written + 1 - at;
    late = std::clamp<cycle>(late, 0, UINT16_MAX);
    if (whole().net.fifos[number()].in_order) at += std::exchange(late, 0);
    record(*c, {at, number(), kind::READ, question::EMPTY, static_cast<std::uint16_t>(late)}, at);
    fifo_times& times = whole().net.fifos[number_];
    if (!times.read_line) times.read_line = from.line, times.read_file = from.file;
}

void fifo::place(site from) {
    if (control* c = current()) {
        const cycle at = c->written = c->access_time(from.line, 'W', last_write_);
        record(*c, {at, number(), kind::WRITE, question::EMPTY, 0}, at);
        fifo_times& times = whole().net.fifos[number_];
        if (!times.write_line) times.write_line = from.line, times.write_file = from.file;
        return;
    }
    // The test bench has written before the design begins.
    simulation& all = whole();
    const std::uint32_t bench = all.lane_of("test bench", "", "");
    all.net.add(bench, {0, number(), kind::WRITE, question::EMPTY, 0});
    all.net.resolve_to(bench, 0);
    all.net.resolve_head(bench);
    all.wake();
}

std::uint32_t fifo::number() {
    if (number_ == UINT32_MAX) {  // declared outside of regions: a port of the kernel, or a stream of sequential code
        number_ = static_cast<std::uint32_t>(whole().net.fifos.size());
        whole().net.fifos.emplace_back();
        whole().net.fifos.back().name = name_;
    }
    return number_;
}

void fifo::record(control& c, const event& e, cycle at) {
    c.add(e);
    if (!(c.inner && c.inner->pipeline())) c.reach(at);
    c.hold_back();
}

void fifo::await_value(control* c, cycle at, site from) {
    if (c) {
        c->reach(at);  // what lies in front of the read happens
        c->wants = number();
        c->wants_at = from;
    }
    while (filled_ == freed_) {
        if (fibers().alone() && !c)
            throw std::runtime_error("stream " + title() +
                                     " is read while it is empty, and nobody is left to write to it");
        const waiting_process until_left(waiting_reader_, self());
        suspend(self(), *this, 0);
    }
    if (c) c->wants = UINT32_MAX;
}

}  // namespace sim::cosim
