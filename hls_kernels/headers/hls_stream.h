// Stands in for the header of Vitis HLS on the emulator. A kernel's functions run one after the other there, as in AMD's C
// simulation, so a stream takes whatever is written to it; its depth, and processes that wait for each other, are what
// sim/dataflow.hpp is for.
#pragma once
#ifdef FPGA_DATAFLOW
#include "sim/hls_stream.h"
#else
#include <cstddef>
#include <deque>
#include <stdexcept>
#include <string>
#include <utility>

#include "ap_int.h"
#include "ap_utils.h"

namespace hls {

template <class T_, int DEPTH_ = 0>
class stream;

template <class T_>
class stream<T_, 0> {
public:
    typedef T_ value_type;

    explicit stream(const char* name = nullptr) : name_(name ? name : "") {}
    stream(const stream&) = delete;
    stream& operator=(const stream&) = delete;

    // Raises std::runtime_error if nothing has been written that has not been read.
    T_ read() {
        if (empty())
            throw std::runtime_error("stream '" + name_ +
                                     "' is read while it is empty: the kernel's functions run one "
                                     "after the other, and none in front of this one has written to it");
        T_ value = std::move(elements_.front());
        elements_.pop_front();
        return value;
    }
    void read(T_& value) { value = read(); }
    void write(const T_& value) { elements_.push_back(value); }
    void operator>>(T_& value) { value = read(); }
    void operator<<(const T_& value) { write(value); }
    bool read_nb(T_& value) {
        if (empty()) return false;
        value = read();
        return true;
    }
    bool write_nb(const T_& value) {
        write(value);
        return true;
    }
    bool empty() const { return elements_.empty(); }
    bool full() const { return false; }
    std::size_t size() const { return elements_.size(); }
    std::size_t capacity() const { return 0; }
    void set_name(const char* name) { name_ = name; }

private:
    std::string name_;
    std::deque<T_> elements_;
};

// One with a depth is one without, so that it can be given to whoever takes a stream of any depth.
template <class T_, int DEPTH_>
class stream : public stream<T_, 0> {
public:
    explicit stream(const char* name = nullptr) : stream<T_, 0>(name) {}
    std::size_t capacity() const { return DEPTH_; }
};

template <class T_>
using istream = stream<T_>;
template <class T_>
using ostream = stream<T_>;

}  // namespace hls
#endif
