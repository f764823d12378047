// A port to maps that lie in several banks: page p of the region is page p / BANKS of bank p % BANKS. What several CUs read and
// write in common so keeps all banks busy, whichever part of it each of them is at.
//
// Each bank has a channel of its own: an argument, and in the port's adapter an AXI ID (`channel` of Vitis HLS' interface pragma,
// UG1399). With one ID an interconnect would hold back the first burst to another bank until all those before have been
// answered ("single slave per ID", AMD's PG453). A burst ends at a page's end, at 4 KiB at the latest, where AXI ends it anyway.
#pragma once
#include <cstddef>
#include <utility>

#include "sim/dataflow.hpp"

#include "config.hpp"

namespace engine {

constexpr int BANKS = ENGINE_BANKS;  // over which the maps are spread
constexpr int PAGE_BYTES = ENGINE_PAGE_BYTES;

template <class T>
class paged_port {
public:
    explicit paged_port(const hls::burst_maxi<T>* banks) : paged_port(banks, std::make_index_sequence<BANKS>()) {}

    void read_request(uint32_t offset, uint32_t length) {
#pragma HLS inline
        to_read_.push(offset, length);
    page_reads:
        for (page_walk at(offset, length); at.left; at.next()) bank_[at.bank()].read_request(at.place(), at.pieces());
    }
    T read() {
#pragma HLS inline
        return bank_[to_read_.next_bank()].read();
    }
    void write_request(uint32_t offset, uint32_t length) {
#pragma HLS inline
        to_write_.push(offset, length);
        to_answer_.push(offset, length);
    page_writes:
        for (page_walk at(offset, length); at.left; at.next()) bank_[at.bank()].write_request(at.place(), at.pieces());
    }
    void write(const T& x) {
#pragma HLS inline
        bank_[to_write_.next_bank()].write(x);
    }
    void write(const T& x, ap_int<sizeof(T)> strobe) {
#pragma HLS inline
        bank_[to_write_.next_bank()].write(x, strobe);
    }
    // To one request, which has an answer from each page.
    void write_response() {
#pragma HLS inline
        const span s = to_answer_.pop();
    page_answers:
        for (page_walk at(s.at, s.left); at.left; at.next()) bank_[at.bank()].write_response();
    }

private:
    static constexpr uint32_t PAGE = PAGE_BYTES / sizeof(T);  // elements
    static constexpr int SPANS = 32;                          // requests that have not been read, written or answered

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

    template <std::size_t... I>
    paged_port(const hls::burst_maxi<T>* banks, std::index_sequence<I...>) : bank_{banks[I]...} {}

    hls::burst_maxi<T> bank_[BANKS];
    span_queue to_read_, to_write_, to_answer_;
};

}  // namespace engine
