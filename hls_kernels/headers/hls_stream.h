// Stands in for the header of Vitis HLS on the emulator: see sim/fifo.hpp for depths and for who waits.
#pragma once
#ifdef FPGA_COSIM
#include "sim/cosim/hls_stream.h"
#elif defined(FPGA_DATAFLOW)
#include "sim/hls_stream.h"
#else
#include <cstddef>
#include <cstring>
#include <deque>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "ap_int.h"
#include "ap_utils.h"
#include "sim/fifo.hpp"

#ifdef FPGA_SEE_UNINITIALIZED
extern "C" void fpga_check_written(const void* element, uint64_t bytes, const char* stream, const char* file, int line);
#endif

namespace hls {

template <class T_, int DEPTH_ = 0>
class stream;

template <class T_>
class stream<T_, 0> {
public:
    typedef T_ value_type;

    explicit stream(const char* name = nullptr) : fifo_(name) {}
    stream(const stream&) = delete;
    stream& operator=(const stream&) = delete;

    // Waits for an element. Raises std::runtime_error if none can come.
    T_ read() {
        if (fifo_.outside()) return read_outside();
        fifo_.await_element();
        T_ value = std::move(elements_.front());
        elements_.pop_front();
        fifo_.freed();
        return value;
    }
#ifdef FPGA_SEE_UNINITIALIZED
    void write(const T_& value, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
        if constexpr (std::is_arithmetic<T_>::value) fpga_check_written(&value, sizeof value, fifo_.name(), file, line);
#else
    void write(const T_& value) {
#endif
        if (fifo_.outside()) return fifo_.write_outside(&value);
        fifo_.await_place();
        elements_.push_back(value);
        fifo_.filled();
    }
    void read(T_& value) { value = read(); }
    void operator>>(T_& value) { value = read(); }
    void operator<<(const T_& value) { write(value); }
    bool read_nb(T_& value) {
        if (empty()) return false;
        value = read();
        return true;
    }
    bool write_nb(const T_& value) {
        if (full()) return false;
        write(value);
        return true;
    }
    bool empty() const { return fifo_.poll_empty(); }
    bool full() const { return fifo_.poll_full(); }
    std::size_t size() const { return fifo_.size(); }
    std::size_t capacity() const { return fifo_.capacity(); }
    void set_name(const char* name) { fifo_.set_name(name); }

    sim::fifo& fifo() { return fifo_; }  // of the emulator
    static constexpr std::size_t hardware_depth() { return 2; }

private:
    // Many types of packs have a constructor that copies, and are bits nevertheless.
    T_ read_outside() {
        if constexpr (!std::is_trivially_destructible<T_>::value) {
            throw std::runtime_error("elements of a stream between kernels are bits: no pointers, no destructors");
        } else {
            alignas(T_) unsigned char bytes[sizeof(T_)];
            fifo_.read_outside(bytes);
            T_ value;
            std::memcpy(static_cast<void*>(&value), bytes, sizeof bytes);
            return value;
        }
    }

    sim::fifo fifo_;
    std::deque<T_> elements_;
};

// One with a depth is one without, so that it can be given to whoever takes a stream of any depth.
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
#endif
