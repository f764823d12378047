// The report of a co-simulation: see result.hpp.
#include "result.hpp"
#include "depths.hpp"

namespace sim::cosim {

bool record::advance() {
    network& net = whole().net;
    if (net.answer_first()) {
        whole().wake();
        return true;
    }
    if (net.keep_order()) {
        whole().wake();
        return true;
    }
    if (deadlocked_) return give_up();
    deadlocked_ = true;
    for (const fifo_times& f : net.fifos) depths_.push_back(f.depth);
    note_waits();
    net.lift_depths();
    const bool moved = !net.resumed.empty();
    whole().wake();
    return moved || give_up();
}

void record::write() {
    const char* path = std::getenv("FPGA_COSIM_RESULT");
    std::FILE* file = path && !written_ ? std::fopen(path, "w") : nullptr;
    if (!file) return;
    written_ = true;
    network& net = whole().net;
    for (std::size_t n = depths_.size(); n < net.fifos.size(); n++) depths_.push_back(net.fifos[n].depth);
    text_ = "{\"top\": " + quoted(top_);
    text_ += ", \"asks_states\": " + std::string(net.asks_states ? "true" : "false");
    text_ += ", \"accesses_without_stage\": " + number(static_cast<cycle>(whole().unknown_accesses));
    depth_search search(net, depths_, [this] { return total(); });
    if (deadlocked_) {
        write_deadlock(search);
    } else {
        text_ += ", \"deadlock\": null";
        write_cycles(search);
    }
    text_ += "}\n";
    std::fputs(text_.c_str(), file);
    std::fclose(file);
}

bool record::give_up() {
    for_ever_ = true;
    write();
    return false;
}

cycle record::total() const {
    const std::vector<cycle>& tokens = whole().net.tokens;
    cycle last = 0;
    for (const call& one : calls) {
        for (const std::uint32_t end : one.ends) {
            if (tokens[end] == UNKNOWN) return UNKNOWN;
            last = std::max(last, tokens[end]);
        }
    }
    return calls.empty() || tokens[calls.front().begin] == UNKNOWN ? UNKNOWN : last - tokens[calls.front().begin];
}

void record::note_waits() {
    const network& net = whole().net;
    for (const control* c : whole().controls)
        if (c->wants != UINT32_MAX) waits_.push_back({c->lane, c->wants, false, c->wants_at.line, c->wants_at.file});
    for (std::uint32_t n = 0; n < net.lanes.size(); n++) {
        const lane& l = net.lanes[n];
        if (l.next == l.events.size() || l.blocked_on == UINT32_MAX) continue;
        if (l.blocked_by == kind::WRITE) {
            const fifo_times& f = net.fifos[l.blocked_on];
            waits_.push_back({n, l.blocked_on, true, f.write_line, f.write_file});
        } else if (l.blocked_by == kind::READ) {
            const fifo_times& f = net.fifos[l.blocked_on];
            waits_.push_back({n, l.blocked_on, false, f.read_line, f.read_file});
        }
    }
}

std::uint32_t record::other_end(const fifo_times& f, const waiting_lane& w) {
    const std::uint32_t known = w.writes ? f.reader : f.writer;
    if (known != UINT32_MAX) return known;
    const network& net = whole().net;
    std::uint32_t found = UINT32_MAX;
    for (std::uint32_t n = 0; n < net.lanes.size(); n++) {
        if (n == w.lane || net.lanes[n].names.find(" " + f.variable + " ") == std::string::npos) continue;
        if (found != UINT32_MAX) return UINT32_MAX;
        found = n;
    }
    return found;
}

auto record::circle() const -> std::vector<waiting_lane> {
    const network& net = whole().net;
    std::vector<waiting_lane> longest;
    for (const waiting_lane& first : waits_) {
        std::vector<waiting_lane> path{first};
        for (;;) {
            const fifo_times& f = net.fifos[path.back().fifo];
            const std::uint32_t other = other_end(f, path.back());
            const auto same = [other](const waiting_lane& w) { return w.lane == other; };
            const auto before = std::find_if(path.begin(), path.end(), same);
            if (before != path.end()) return {before, path.end()};
            const auto next = std::find_if(waits_.begin(), waits_.end(), same);
            if (next == waits_.end()) break;
            path.push_back(*next);
        }
        if (path.size() > longest.size()) longest = path;
    }
    return longest;
}

void record::write_deadlock(depth_search& search) {
    network& net = whole().net;
    text_ += ", \"deadlock\": {\"cycle\": [";
    const char* between = "";
    for (const waiting_lane& w : circle()) {
        const fifo_times& f = net.fifos[w.fifo];
        const std::uint32_t other = other_end(f, w);
        text_ += std::exchange(between, ", ");
        text_ += "{\"process\": " + quoted(net.lanes[w.lane].name) + ", \"waits_to\": \"";
        text_ += std::string(w.writes ? "write" : "read") + "\", \"fifo\": " + quoted(f.name) + ", \"depth\": ";
        text_ += depth(depths_[w.fifo]) + ", \"file\": " + quoted(w.file) + ", \"line\": " + number(w.line);
        text_ += ", \"other\": " + (other == UINT32_MAX ? "null" : quoted(net.lanes[other].name)) + "}";
    }
    text_ += "], \"resolved_by\": ";
    std::vector<std::uint32_t> enough;
    if (for_ever_ || !search.resolve(enough)) {
        text_ += "null}";
        search.apply(depths_);
        write_lanes();
        write_fifos({}, false);
        return;
    }
    text_ += "{";
    between = "";
    for (std::size_t n = 0; n < enough.size(); n++)
        if (enough[n] != depths_[n])
            text_ += std::exchange(between, ", ") + quoted(title(net.fifos[n])) + ": " + depth(enough[n]);
    text_ += "}, \"cycles_then\": " + number(search.cycles(enough)) + "}";
    search.apply(depths_);
    write_lanes();
    write_fifos({}, false);
}

void record::write_cycles(depth_search& search) {
    network& net = whole().net;
    net.memory = least_;
    const cycle least = search.cycles(depths_);
    net.memory = most_;
    const cycle most = search.cycles(depths_);
    net.memory = least_;
    std::vector<std::uint32_t> smallest;
    const bool searched = search.wanted();
    cycle best = UNKNOWN;
    if (searched) best = search.smallest(smallest);
    search.apply(depths_);
    text_ += ", \"cycles\": " + (total() == UNKNOWN ? "null" : number(total()));
    text_ += ", \"memory_range\": [" + number(least) + ", " + number(most) + "]";
    if (searched) text_ += ", \"cycles_any_depth\": " + number(best);
    text_ += ", \"calls\": [";
    const char* between = "";
    cycle first = calls.empty() ? 0 : net.tokens[calls.front().begin];
    for (const call& one : calls) {
        cycle end = 0;
        for (const std::uint32_t token : one.ends) end = std::max(end, net.tokens[token]);
        text_ += std::exchange(between, ", ");
        text_ += "[" + number(net.tokens[one.begin] - first) + ", " + number(end - first) + "]";
    }
    text_ += "]";
    write_lanes();
    write_fifos(smallest, searched);
}

void record::write_lanes() {
    const network& net = whole().net;
    const cycle first = calls.empty() ? 0 : std::max<cycle>(0, net.tokens[calls.front().begin]);
    text_ += ", \"processes\": [";
    const char* between = "";
    for (const lane& l : net.lanes) {
        if (l.name.empty() || (l.region.empty() && net.lanes.size() > 2)) continue;  // the bench; a region's own
        cycle in_all = 0, waiting = 0;
        const cycle end = l.events.empty() ? 0 : l.settled + l.delay;
        for (const auto& span : l.spans) in_all += (span.second > span.first ? span.second : end) - span.first;
        text_ += std::exchange(between, ", ");
        text_ += "{\"name\": " + quoted(l.name) + ", \"region\": " + quoted(l.region) + ", \"runs\": ";
        text_ += number(static_cast<cycle>(l.spans.size())) + ", \"waits\": [";
        const char* inside = "";
        for (const wait_time& w : l.waits) {
            waiting += w.cycles;
            text_ += std::exchange(inside, ", ");
            text_ += "{\"for\": " + quoted(thing(w.what, w.k)) + ", \"to\": \"" + way(w.k) +
                     "\", \"cycles\": " + number(w.cycles) + "}";
        }
        text_ += "], \"busy\": " + number(in_all - waiting) + ", \"spans\": [";
        inside = "";
        for (std::size_t n = 0; n < std::min(l.spans.size(), MOST); n++) {
            const auto& span = l.spans[n];
            text_ += std::exchange(inside, ", ");
            text_ += "[" + number(span.first - first) + ", " +
                     number((span.second > span.first ? span.second : end) - first) + "]";
        }
        text_ += "], \"stalls\": [";
        inside = "";
        for (std::size_t n = 0; n < std::min(l.stalls.size(), MOST); n++) {
            const stall& s = l.stalls[n];
            text_ += std::exchange(inside, ", ");
            text_ += "[" + number(s.from - first) + ", " + number(s.to - first) + ", " + quoted(thing(s.what, s.k)) +
                     ", \"" + way(s.k) + "\"]";
        }
        text_ += "]}";
    }
    text_ += "]";
}

void record::write_fifos(const std::vector<std::uint32_t>& smallest, bool searched) {
    const network& net = whole().net;
    text_ += ", \"fifos\": [";
    const char* between = "";
    for (std::size_t n = 0; n < net.fifos.size(); n++) {
        const fifo_times& f = net.fifos[n];
        if (f.region.empty()) continue;
        text_ += std::exchange(between, ", ");
        text_ += "{\"name\": " + quoted(title(f)) + ", \"region\": " + quoted(f.region) +
                 ", \"depth\": " + depth(depths_[n]);
        text_ += ", \"elements\": " + number(static_cast<cycle>(f.written.size()));
        text_ += ", \"occupancy\": " + number(network::occupancy(f));
        text_ += ", \"smallest_depth\": " + (searched ? depth(smallest[n]) : "null");
        text_ += ", \"writer\": " + (f.writer == UINT32_MAX ? "null" : quoted(net.lanes[f.writer].name));
        text_ += ", \"reader\": " + (f.reader == UINT32_MAX ? "null" : quoted(net.lanes[f.reader].name)) + "}";
    }
    text_ += "]";
}

std::string record::thing(std::uint32_t what, kind k) const {
    const network& net = whole().net;
    return k == kind::READ || k == kind::WRITE || k == kind::ASK ? net.fifos[what].name : net.ports[what].name;
}

std::string record::quoted(const std::string& text) {
    std::string found = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') found += '\\';
        if (static_cast<unsigned char>(c) >= 0x20) found += c;
    }
    return found + "\"";
}

}  // namespace sim::cosim
