// Stands in for the header of Vitis HLS while loops are checked: a read or a write of a stream is one call that the
// checker knows, beside the load or store of the value.
#pragma once
#include <cstddef>

#include "ap_int.h"
#include "ap_utils.h"

extern "C" {
void* __hls_fifo_pop(const volatile void* stream) noexcept;
void* __hls_fifo_push(const volatile void* stream) noexcept;
bool __hls_fifo_empty(const volatile void* stream) noexcept;
bool __hls_fifo_there(const volatile void* stream) noexcept;
bool __hls_fifo_full(const volatile void* stream) noexcept;
bool __hls_fifo_full_for(const volatile void* stream, unsigned long long value) noexcept;
}

#define __HLS_INLINE inline __attribute__((always_inline))

namespace hls {

template <class T_, int DEPTH_ = 0>
class stream;

template <class T_>
class stream<T_, 0> {
public:
    stream() = default;
    explicit stream(const char*) {}
    stream(const stream&) = delete;
    stream& operator=(const stream&) = delete;

    __HLS_INLINE T_ read() { return *static_cast<T_*>(__hls_fifo_pop(&handle_)); }
    __HLS_INLINE void read(T_& value) { value = read(); }
    __HLS_INLINE void write(const T_& value) { *static_cast<T_*>(__hls_fifo_push(&handle_)) = value; }
    __HLS_INLINE bool empty() const { return __hls_fifo_empty(&handle_); }
    __HLS_INLINE bool full() const { return __hls_fifo_full(&handle_); }
    __HLS_INLINE bool read_nb(T_& value) {
        const bool there = __hls_fifo_there(&handle_);  // one operation with the read
        if (there) value = read();
        return there;
    }
    __HLS_INLINE bool write_nb(const T_& value) {
        // One operation: whether it succeeds is known when the value is there.
        unsigned long long bits = 0;
        __builtin_memcpy(&bits, static_cast<const void*>(&value),
                         sizeof value < sizeof bits ? sizeof value : sizeof bits);
        const bool room = !__hls_fifo_full_for(&handle_, bits);
        if (room) write(value);
        return room;
    }
    __HLS_INLINE void operator>>(T_& value) { value = read(); }
    __HLS_INLINE void operator<<(const T_& value) { write(value); }
    __HLS_INLINE std::size_t size() const { return 0; }
    __HLS_INLINE std::size_t capacity() const { return 0; }
    void set_name(const char*) {}

private:
    char handle_;
};

// One with a depth is one without, so that it can be given to whoever takes a stream of any depth.
template <class T_, int DEPTH_>
class stream : public stream<T_, 0> {
public:
    stream() = default;
    explicit stream(const char*) {}
    __HLS_INLINE std::size_t capacity() const { return DEPTH_; }
};

template <class T_, int DEPTH_, int N_>
class stream_array;

template <class T_>
using istream = stream<T_>;
template <class T_>
using ostream = stream<T_>;

}  // namespace hls
