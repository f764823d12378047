// hls::burst_maxi under g++: an m_axi port whose bursts the kernel asks for itself. Offsets and lengths are in elements of T.
//
// A process owns its port. Requests may be made ahead of the data; data comes, and goes, in the order of the requests. What
// was not requested cannot be read or written, and each write_request has its write_response.
#pragma once
#include <cstddef>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "headers/ap_int.h"
#include "memory.hpp"
#include "port.hpp"

namespace hls {

template <class T_>
class burst_maxi {
public:
    typedef T_ value_type;
    burst_maxi(T_* data) : data_(data), port_(std::make_shared<sim::port>(static_cast<uint32_t>(sizeof(T_)))) {}

    void read_request(std::size_t offset, std::size_t length) { port_->read_request(offset, length); }
    T_ read() { return data_[port_->read()]; }
    void write_request(std::size_t offset, std::size_t length) { port_->write_request(offset, length); }
    void write(const T_& x) { data_[port_->write()] = x; }
    // Bytes whose bit of `strobe` is 0 stay as they are.
    void write(const T_& x, ap_int<sizeof(T_)> strobe) {
        T_& to = data_[port_->write()];
        for (std::size_t i = 0; i < sizeof(T_); i++)
            if (strobe[static_cast<int>(i)]) reinterpret_cast<char*>(&to)[i] = reinterpret_cast<const char*>(&x)[i];
    }
    void write_response() {
        if (unaligned_->responses) return static_cast<void>(unaligned_->responses--);
        port_->write_response();
    }

    // Elements of another type, from a byte on; they need not lie where elements of the port begin.
    template <class V_>
    void read_request_unaligned(std::size_t byte, std::size_t length) {
        if (length) unaligned_->reads.push_back(checked<V_>(byte, length));
    }
    template <class V_>
    V_ read() {
        static_assert(std::is_trivially_copyable<V_>::value, "elements of a port are bits");
        V_ value;
        std::memcpy(static_cast<void*>(&value), bytes() + next(unaligned_->reads, sizeof(V_), "reads"), sizeof value);
        return value;
    }
    template <class V_>
    void write_request_unaligned(std::size_t byte, std::size_t length) {
        if (length) unaligned_->writes.push_back(checked<V_>(byte, length));
        unaligned_->responses++;
    }
    template <class V_>
    void write(const typename std::common_type<V_>::type& x) {
        std::memcpy(bytes() + next(unaligned_->writes, sizeof(V_), "writes"), static_cast<const void*>(&x), sizeof x);
    }

    const std::shared_ptr<sim::port>& port() const { return port_; }  // of the simulator, for benches

private:
    struct span {
        std::size_t byte, left, size;
    };
    struct requests {
        std::deque<span> reads, writes;
        std::size_t responses = 0;
    };
    template <class V_>
    span checked(std::size_t byte, std::size_t length) const {
        const sim::port_settings& settings = port_->settings();
        if (sim::COUNTING) throw misuse("has unaligned requests, whose cycles are not simulated");
        if (settings.elements && byte + length * sizeof(V_) > settings.elements * sizeof(T_))
            throw misuse("requests bytes " + std::to_string(byte) + " to " +
                         std::to_string(byte + length * sizeof(V_) - 1) + " of a buffer of " +
                         std::to_string(settings.elements * sizeof(T_)));
        return {byte, length, sizeof(V_)};
    }
    std::size_t next(std::deque<span>& spans, std::size_t size, const char* what) const {
        if (spans.empty() || spans.front().size != size)
            throw misuse(std::string(what) + " an element that it has not requested");
        const std::size_t byte = spans.front().byte;
        spans.front().byte += size;
        if (!--spans.front().left) spans.pop_front();
        return byte;
    }
    sim::error misuse(const std::string& what) const {
        return sim::error(sim::self().name() + ": port '" + port_->settings().name + "' " + what + ".");
    }
    char* bytes() const { return reinterpret_cast<char*>(data_); }

    T_* data_;
    std::shared_ptr<sim::port> port_;  // copies are the same port
    std::shared_ptr<requests> unaligned_ = std::make_shared<requests>();
};

}  // namespace hls

namespace sim {

// Names a port, says what lies behind it, and connects it to a bank of `where`. A functional build needs no bank, and no
// call of this, which then only checks offsets.
template <class T_>
void bind(hls::burst_maxi<T_>& p, port_settings settings, memory* where = nullptr, bank* of_port = nullptr) {
    p.port()->bind(std::move(settings), of_port);
    if (where) where->attach(p.port());
}

}  // namespace sim
