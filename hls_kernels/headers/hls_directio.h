// Stands in for the header of Vitis HLS: scalar ports that a kernel reads and writes while it runs. As in AMD's C simulation
// each write is kept until it is read.
#pragma once
#include <hls_stream.h>

namespace hls {

// With valid and acknowledge.
template <class T_>
class ap_hs : public stream<T_> {
public:
    explicit ap_hs(const char* name = nullptr) : stream<T_>(name) {}
    bool valid() const { return !this->empty(); }
};

// With an acknowledge alone.
template <class T_>
class ap_ack : public stream<T_> {
public:
    explicit ap_ack(const char* name = nullptr) : stream<T_>(name) {}
};

// Without an acknowledge: outside of tasks, the last value is read again.
template <class T_>
class ap_vld : public stream<T_> {
public:
    explicit ap_vld(const char* name = nullptr) : stream<T_>(name) {}
    bool valid() const { return !this->empty(); }
    T_ read() {
#ifndef __HLS_CHECK__
        if (has_last_ && !sim::self().endless && this->empty()) return last_;
#endif
        has_last_ = true;
        return last_ = stream<T_>::read();
    }
    void read(T_& value) { value = read(); }
    void operator>>(T_& value) { value = read(); }

private:
    T_ last_{};
    bool has_last_ = false;
};

template <class T_>
class ap_none : public ap_vld<T_> {
public:
    explicit ap_none(const char* name = nullptr) : ap_vld<T_>(name) {}
};

}  // namespace hls
