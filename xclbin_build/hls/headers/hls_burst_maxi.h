// Stands in for the header of Vitis HLS while loops are checked: a manual burst is a stream of beats.
#pragma once
#include <cstddef>

extern "C" {
void __hls_burst_request(const volatile void* port, unsigned long long at, unsigned long long length) noexcept;
void* __hls_burst_pop(const volatile void* port) noexcept;
void* __hls_burst_push(const volatile void* port) noexcept;
}

namespace hls {

template <class T_>
class burst_maxi {
public:
    burst_maxi(T_* at) : at_(at) {}
    void read_request(std::size_t at, std::size_t length) { __hls_burst_request(at_, at, length); }
    void write_request(std::size_t at, std::size_t length) { __hls_burst_request(at_, at, length); }
    void write_response() {}
    T_ read() { return *static_cast<T_*>(__hls_burst_pop(at_)); }
    void write(const T_& x, long long = 0) { *static_cast<T_*>(__hls_burst_push(at_)) = x; }

private:
    T_* at_;
};

}  // namespace hls
