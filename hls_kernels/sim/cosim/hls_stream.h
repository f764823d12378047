// hls::stream in a co-simulation. Each operation knows its line in the source, by which the schedule knows its cycle.
#pragma once
#include <cstddef>
#include <deque>
#include <utility>

#include "ap_int.h"
#include "ap_utils.h"
#include "sim/cosim/fifo.hpp"

namespace hls {

template <class T_, int DEPTH_ = 0>
class stream;

template <class T_>
class stream<T_, 0> {
public:
    typedef T_ value_type;
    using site = sim::cosim::site;

    explicit stream(const char* name = nullptr) : fifo_(name) {}
    stream(const stream&) = delete;
    stream& operator=(const stream&) = delete;

    T_ read(site at = site::here()) {
        fifo_.await_element(at);
        T_ value = std::move(elements_.front());
        elements_.pop_front();
        fifo_.freed();
        return value;
    }
    void write(const T_& value, site at = site::here()) {
        fifo_.place(at);
        elements_.push_back(value);
        fifo_.filled();
    }
    void read(T_& value, site at = site::here()) { value = read(at); }
    void operator>>(T_& value) { value = read(site{0, ""}); }
    void operator<<(const T_& value) { write(value, site{0, ""}); }
    bool read_nb(T_& value, site at = site::here()) {
        if (fifo_.empty(at.line, 'R')) return false;
        value = read(at);
        return true;
    }
    bool write_nb(const T_& value, site at = site::here()) {
        if (fifo_.full(at.line, 'W')) return false;
        write(value, at);
        return true;
    }
    bool empty(site at = site::here()) const { return fifo_.empty(at.line); }
    bool full(site at = site::here()) const { return fifo_.full(at.line); }
    std::size_t size(site at = site::here()) const { return fifo_.size(at.line); }
    std::size_t capacity() const { return fifo_.capacity(); }
    void set_name(const char* name) { fifo_.set_name(name); }

    sim::cosim::fifo& fifo() { return fifo_; }
    static constexpr std::size_t hardware_depth() { return 2; }

private:
    mutable sim::cosim::fifo fifo_;
    std::deque<T_> elements_;
};

template <class T_, int DEPTH_>
class stream : public stream<T_, 0> {
public:
    explicit stream(const char* name = nullptr) : stream<T_, 0>(name) {}
    std::size_t capacity() const { return DEPTH_; }
    static constexpr std::size_t hardware_depth() { return DEPTH_; }
};

template <class T_>
using istream = stream<T_>;
template <class T_>
using ostream = stream<T_>;

}  // namespace hls
