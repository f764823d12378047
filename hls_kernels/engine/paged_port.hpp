// A port to maps that lie in several banks: page p of the region is page p / BANKS of bank p % BANKS. What several CUs read and
// write in common so keeps all banks busy, whichever part of it each of them is at.
//
// Each bank has a channel of its own: an argument, and in the port's adapter an AXI ID (`channel` of Vitis HLS' interface pragma,
// UG1399, "M_AXI Channels"). With one ID an interconnect would hold back the first burst to another bank until all those before have been
// answered ("single slave per ID", AMD's PG453). A burst ends at a page's end, at 4 KiB at the latest, where AXI ends it anyway.
#pragma once
#include <cstdint>
#include <utility>

#include "sim/dataflow.hpp"

#include "config.hpp"

namespace engine {

constexpr int BANKS = ENGINE_BANKS;  // over which the maps are spread
constexpr int PAGE_BYTES = ENGINE_PAGE_BYTES;

// The ports to the last N of the banks. One is chosen by comparisons, each access stands once for each bank: interfaces of a
// kernel are no array that a number at run time could be an index of.
// \tparam T Element of a port.
// \tparam N Number of ports in this part of the list.
template <class T, int N>
class bank_ports {
public:
    // One port for each bank.
    // \tparam Rest Types of the other ports.
    template <class... Rest>
    explicit bank_ports(const hls::burst_maxi<T>& first, const Rest&... rest) : port_(first), others_(rest...) {
        static_assert(1 + sizeof...(rest) == N, "a port for each bank");
    }
    // f of the bank's port.
    // \tparam F Function that accepts a port.
    template <class F>
    auto at(uint32_t bank, F f) -> decltype(f(std::declval<hls::burst_maxi<T>&>())) {
#pragma HLS inline
        return bank == BANKS - N ? f(port_) : others_.at(bank, f);
    }

private:
    hls::burst_maxi<T> port_;
    bank_ports<T, N - 1> others_;
};
// \tparam T Element of a port.
template <class T>
class bank_ports<T, 1> {
public:
    explicit bank_ports(const hls::burst_maxi<T>& only) : port_(only) {}
    // \tparam F Function that accepts a port.
    template <class F>
    auto at(uint32_t, F f) -> decltype(f(std::declval<hls::burst_maxi<T>&>())) {
#pragma HLS inline
        return f(port_);
    }

private:
    hls::burst_maxi<T> port_;
};

// \tparam T Element of a port.
template <class T>
class paged_port {
public:
    typedef hls::burst_maxi<T> port;

    explicit paged_port(const bank_ports<T, BANKS>& banks) : banks_(banks) {}

    void read_request(uint32_t offset, uint32_t length) {
#pragma HLS inline
        to_read_.push(offset, length);
    page_reads:
        for (page_walk at(offset, length); at.left; at.next()) {
#pragma HLS loop_tripcount min = 1 max = MOST_PAGES
            const uint32_t place = at.place(), pieces = at.pieces();
            banks_.at(at.bank(), [&](port& p) { p.read_request(place, pieces); });
        }
    }
    T read() {
#pragma HLS inline
        return banks_.at(to_read_.next_bank(), [](port& p) { return p.read(); });
    }
    void write_request(uint32_t offset, uint32_t length) {
#pragma HLS inline
        to_write_.push(offset, length);
        to_answer_.push(offset, length);
    page_writes:
        for (page_walk at(offset, length); at.left; at.next()) {
#pragma HLS loop_tripcount min = 1 max = MOST_PAGES
            const uint32_t place = at.place(), pieces = at.pieces();
            banks_.at(at.bank(), [&](port& p) { p.write_request(place, pieces); });
        }
    }
    void write(const T& x) {
#pragma HLS inline
        banks_.at(to_write_.next_bank(), [&](port& p) { p.write(x); });
    }
    void write(const T& x, ap_int<sizeof(T)> strobe) {
#pragma HLS inline
        banks_.at(to_write_.next_bank(), [&](port& p) { p.write(x, strobe); });
    }
    // To one request, which has an answer from each page.
    void write_response() {
#pragma HLS inline
        const span s = to_answer_.pop();
    page_answers:
        for (page_walk at(s.at, s.left); at.left; at.next()) {
#pragma HLS loop_tripcount min = 1 max = MOST_PAGES
            banks_.at(at.bank(), [](port& p) { p.write_response(); });
        }
    }

private:
    static constexpr uint32_t PAGE = PAGE_BYTES / sizeof(T);       // elements
    static constexpr uint32_t MOST_PAGES = (1u << 30) / PAGE + 1;  // of a request of less than 2^30 elements
    static constexpr uint32_t SPANS = 16;  // requests that have not been read, written or answered

    static uint32_t bank_of(uint32_t at) { return at / PAGE % BANKS; }
    struct span {
        uint32_t at, left;
    };
    // The pages of a span, one behind the other.
    struct page_walk {
        uint32_t at, left;
        page_walk(uint32_t offset, uint32_t length) : at(offset), left(length) {}
        uint32_t bank() const { return bank_of(at); }
        uint32_t place() const { return at / PAGE / BANKS * PAGE + at % PAGE; }
        uint32_t pieces() const { return left < PAGE - at % PAGE ? left : PAGE - at % PAGE; }
        void next() {
            const uint32_t n = pieces();
            at += n;
            left -= n;
        }
    };
    // Spans in the order of their requests.
    class span_queue {
    public:
        void push(uint32_t at, uint32_t length) {
#pragma HLS inline
// Registers: from a memory the next span would come a cycle too late for a beat in each.
#pragma HLS array_partition variable = spans_ complete
#ifndef __VITIS_HLS__
            if (in_ - out_ == SPANS)
                throw sim::error("a port to maps has more requests on their way than it has room for");
#endif
            spans_[in_ % SPANS] = {at, length};
            in_++;
        }
        span pop() {
#pragma HLS inline
            const span s = spans_[out_ % SPANS];
            out_++;
            return s;
        }
        // Where the next element lies.
        uint32_t next_bank() {
#pragma HLS inline
            if (!now_.left) now_ = pop();
            now_.left--;
            return bank_of(now_.at++);
        }

    private:
        span spans_[SPANS];
        span now_ = {0, 0};
        uint32_t in_ = 0, out_ = 0;
    };

    bank_ports<T, BANKS> banks_;
    span_queue to_read_, to_write_, to_answer_;
};

}  // namespace engine
