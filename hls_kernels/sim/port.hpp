// The kernel's side of an m_axi port. Requests are cut into AXI bursts. They are issued in order as far as outstanding bursts
// and the adapter's buffers allow. Their beats come and go at the cycles that the port's memory bank determines.
//
// As in AMD's adapter, a burst is at most `max_burst` beats and does not cross 4 KiB. A read burst is issued only when the
// buffer has room for it, a write burst only when all of its beats are in the buffer. Both buffers hold as many beats as
// `outstanding` bursts of full length.
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "loop.hpp"
#include "process.hpp"

namespace sim {

constexpr uint32_t AXI_PAGE = 4096;  // bytes; no burst crosses a multiple of it (AMBA AXI, A3.4.1)

// The data path from a port to its bank, for each direction: when it is free, in the bank's own unit of time.
struct port_link {
    uint64_t read = 0, write = 0;
};

// What a bank answers, in cycles of the kernel's clock.
struct bank {
    struct request {
        uint64_t address;  // device address in bytes
        uint32_t beats, beat_bytes;
        cycle_t at;  // in which the address leaves the port, and the data of a write begins to
        port_link& link;
    };
    struct written {
        cycle_t drained;   // when the adapter's buffer has room again
        cycle_t response;  // when the response is back
    };
    virtual ~bank() = default;
    // Writes to arrivals[i] the cycle from which on the kernel can read beat i.
    virtual void read(const request& r, cycle_t* arrivals) = 0;
    virtual written write(const request& r) = 0;
    virtual bank_count counts() const = 0;
};

// An m_axi port, as its interface pragma has it.
struct port_settings {
    std::string name;
    uint64_t elements = 0;  // how many elements of T lie behind the pointer; 0: not known, and not checked
    uint64_t address = 0;   // device address of element 0, in bytes
    uint32_t max_burst = 64, outstanding = 16;  // of reads, and of writes unless these say more
    uint32_t max_write_burst = 0, write_outstanding = 0;
};

class port : public stall_cause {
public:
    enum : int { READ_DATA, WRITE_DATA, WRITE_RESPONSE };

    explicit port(uint32_t beat_bytes) : beat_bytes_(beat_bytes) {}
    port(const port&) = delete;
    port& operator=(const port&) = delete;

    void bind(port_settings settings, bank* of_port) {
        settings_ = std::move(settings);
        bank_ = of_port;
    }
    const port_settings& settings() const { return settings_; }

    // ---- what the kernel does --------------------------------------------------------------------------------------
    void read_request(uint64_t offset, uint64_t beats) { request(read_, offset, beats); }
    // The element to read.
    uint64_t read() {
        process& me = self();
        const uint64_t element = next_element(read_, "reads");
        if (!COUNTING) return element;
        while (read_.arrivals.empty()) wait(me, READ_DATA);
        const cycle_t stamp = read_.arrivals.front();
        read_.arrivals.pop_front();
        const cycle_t cycle = pass(me, read_, stamp, READ_DATA);
        if (++read_.used == read_.flying.front().end) {
            read_.done.push_back({read_.used, cycle});
            read_.flying.pop_front();
        }
        return element;
    }
    void write_request(uint64_t offset, uint64_t beats) { request(write_, offset, beats); }
    // The element to write.
    uint64_t write() {
        process& me = self();
        const uint64_t element = next_element(write_, "writes");
        if (COUNTING) write_beat(me);
        return element;
    }
    void write_response() {
        process& me = self();
        if (write_.responses_due.empty()) throw misuse("waits for the response to a write that it has not requested");
        if (write_.taken < write_.responses_due.front())
            throw misuse("waits for the response to a write before it has written all beats");
        const uint64_t end = write_.responses_due.front();
        write_.responses_due.pop_front();
        if (!COUNTING) return;
        while (write_.granted < end) wait(me, WRITE_RESPONSE);
        cycle_t stamp = 0;
        while (!write_.responses.empty() && write_.responses.front().end <= end) {
            stamp = write_.responses.front().cycle;
            write_.responses.pop_front();
        }
        pass(me, response_, stamp, WRITE_RESPONSE);
    }

    // ---- what the memory does --------------------------------------------------------------------------------------
    static constexpr cycle_t NEVER = ~cycle_t{0};

    // When the next burst of a direction leaves the port; NEVER without one, or if the cycle is not known yet.
    cycle_t next_issue(bool write) const {
        const side& s = write ? write_ : read_;
        if (s.waiting.empty()) return NEVER;
        const burst& b = s.waiting.front();
        cycle_t at = std::max(b.asked, s.last_issue);
        if (s.received.size() >= outstanding(s)) at = std::max(at, s.received[s.received.size() - outstanding(s)]);
        if (write) return b.complete ? std::max(at, b.complete) : NEVER;
        if (b.end > room(s)) {  // beats up to b.end - room must have left the buffer
            if (s.used < b.end - room(s)) return NEVER;
            for (const event& e : s.done)
                if (e.end >= b.end - room(s)) {
                    at = std::max(at, e.cycle);
                    break;
                }
        }
        return at;
    }
    void grant(bool write) {
        side& s = write ? write_ : read_;
        const cycle_t at = next_issue(write);
        const burst b = s.waiting.front();
        s.waiting.pop_front();
        s.last_issue = at + 1;
        cycle_t received;
        if (write) {
            s.complete--;
            const bank::written w = bank_->write({b.address, b.beats, beat_bytes_, at, link_});
            s.done.push_back({b.end, w.drained});
            s.responses.push_back({b.end, received = w.response});
        } else {
            while (s.done.size() > 1 && s.done.front().end + room(s) < b.end) s.done.pop_front();
            arriving_.resize(b.beats);
            bank_->read({b.address, b.beats, beat_bytes_, at, link_}, arriving_.data());
            s.arrivals.insert(s.arrivals.end(), arriving_.begin(), arriving_.end());
            s.flying.push_back(b);
            received = arriving_.back();
        }
        s.granted = b.end;
        s.received.push_back(received);
        while (s.received.size() > outstanding(s)) s.received.pop_front();
        s.counts.latency += received - at;
        if (waiting_) fibers().wake(*std::exchange(waiting_, nullptr));
    }
    port_count counts(bool write) const {
        port_count c = write ? write_.counts : read_.counts;
        c.port = settings_.name;
        c.bank = bank_ ? bank_->counts().bank : "";
        c.write = write;
        return c;
    }
    bool used(bool write) const { return (write ? write_ : read_).counts.requests != 0; }

    // ---- names -----------------------------------------------------------------------------------------------------
    std::string cause(int why) const override {
        static const char* const NAMES[] = {" read data", " write data", " write response"};
        return settings_.name + NAMES[why];
    }
    std::string waiting(int why) const override { return "for " + cause(why); }

private:
    struct burst {
        uint64_t address, end;  // `end`: beats of this direction up to and with this burst
        uint32_t beats;
        cycle_t asked, complete;  // of a write: the cycle after its last beat, 0 until then
    };
    struct event {
        uint64_t end;  // beats
        cycle_t cycle;
    };
    struct span {
        uint64_t element, left;
    };
    struct side {
        std::deque<span> spans;     // requested, not yet read or written by the kernel
        std::deque<burst> waiting;  // not granted
        std::size_t complete = 0;   // write: so many of them have all their beats
        std::deque<burst> flying;   // read: granted, not yet used up
        std::deque<cycle_t> arrivals, received;
        std::deque<event> done;       // when the buffer's places became free
        std::deque<event> responses;  // write
        std::deque<uint64_t> responses_due;
        uint64_t requested = 0, taken = 0, used = 0, granted = 0;  // beats
        cycle_t last_issue = 0, in_iteration = 0;
        uint64_t iteration = 0;  // of the process, in which it was used last, and how often before
        port_count counts;
    };

    uint32_t max_burst(const side& s) const {
        return &s == &write_ && settings_.max_write_burst ? settings_.max_write_burst : settings_.max_burst;
    }
    uint32_t outstanding(const side& s) const {
        return &s == &write_ && settings_.write_outstanding ? settings_.write_outstanding : settings_.outstanding;
    }
    // Beats that a buffer holds.
    uint64_t room(const side& s) const { return uint64_t{outstanding(s)} * max_burst(s); }
    void request(side& s, uint64_t offset, uint64_t beats) {
        process& me = self();
        if (!beats) throw misuse("requests no beats; leave out a request of length 0");
        if (settings_.elements && (offset >= settings_.elements || beats > settings_.elements - offset))
            throw misuse("requests elements " + std::to_string(offset) + " to " + std::to_string(offset + beats) +
                         " of " + std::to_string(settings_.elements));
        s.spans.push_back({offset, beats});
        s.requested += beats;
        if (&s == &write_) s.responses_due.push_back(s.requested);
        if (!COUNTING) return;
        if (!bank_) throw misuse("has no memory bank; give it one by sim::bind");
        const cycle_t asked = me.in_loop ? me.in_loop->start() : me.now++;
        s.counts.requests++;
        uint64_t address = settings_.address + offset * beat_bytes_;
        for (uint64_t end = s.requested - beats; beats;) {
            const uint64_t to_page = (AXI_PAGE - address % AXI_PAGE + beat_bytes_ - 1) / beat_bytes_;
            const uint32_t n = static_cast<uint32_t>(std::min({beats, to_page, uint64_t{max_burst(s)}}));
            s.waiting.push_back({address, end += n, n, asked, 0});
            s.counts.bursts++;
            s.counts.beats += n;
            s.counts.bytes += uint64_t{n} * beat_bytes_;
            if (s.counts.by_length.size() <= n) s.counts.by_length.resize(n + 1);
            s.counts.by_length[n]++;
            address += uint64_t{n} * beat_bytes_;
            beats -= n;
        }
    }
    uint64_t next_element(side& s, const char* what) {
        if (s.spans.empty()) throw misuse(std::string(what) + " a beat that it has not requested");
        span& first = s.spans.front();
        const uint64_t element = first.element++;
        s.taken++;
        if (!--first.left) s.spans.pop_front();
        return element;
    }
    void write_beat(process& me) {
        side& s = write_;
        cycle_t stamp = 0;
        if (s.taken > room(s)) {
            while (s.granted < s.taken - room(s)) wait(me, WRITE_DATA);
            while (s.done.front().end < s.taken - room(s)) s.done.pop_front();
            stamp = s.done.front().cycle;
        }
        const cycle_t cycle = pass(me, s, stamp, WRITE_DATA);
        burst& b = s.waiting[s.complete];
        if (b.end != s.taken) return;
        b.complete = cycle + 1;
        s.complete++;
    }
    // The cycle in which a beat or a response passes the port, `from` at the earliest: one a cycle.
    cycle_t pass(process& me, side& s, cycle_t from, int why) {
        if (!me.in_loop) {
            me.wait_until(from, *this, why);
            return me.now++;
        }
        loop& l = *me.in_loop;
        s.in_iteration = s.iteration == me.iteration ? s.in_iteration + 1 : 0;
        s.iteration = me.iteration;
        if (s.in_iteration >= l.contract().ii)
            throw misuse("is used more often in an iteration of loop '" + std::string(l.contract().label) +
                         "' than its II = " + std::to_string(l.contract().ii) + " allows");
        from -= std::min(from, s.in_iteration);
        if (why == WRITE_DATA) {
            l.stop_until(from, *this, why);
            return l.end() + s.in_iteration;
        }
        l.hold_until(from, *this, why);
        return l.start() + s.in_iteration;
    }
    void wait(process& me, int why) {
        waiting_ = &me;
        suspend_in_loop(me, *this, why);
    }
    error misuse(const std::string& what) const {
        return error(self().name() + ": port '" + settings_.name + "' " + what + ".");
    }

    port_settings settings_{"m_axi", 0, 0, 64, 16, 0, 0};
    uint32_t beat_bytes_;
    bank* bank_ = nullptr;
    port_link link_;
    process* waiting_ = nullptr;
    side read_, write_, response_;
    std::vector<cycle_t> arriving_;
};

}  // namespace sim
