// hls::burst_maxi under g++: an m_axi port whose bursts the kernel asks for itself. Offsets and lengths are in elements of T.
//
// A process owns its port. Requests may be made ahead of the data; data comes, and goes, in the order of the requests. What
// was not requested cannot be read or written, and each write_request has its write_response.
#pragma once
#include <cstddef>
#include <memory>
#include <string>
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
    void write_response() { port_->write_response(); }

    const std::shared_ptr<sim::port>& port() const { return port_; }  // of the simulator, for benches

private:
    T_* data_;
    std::shared_ptr<sim::port> port_;  // copies are the same port
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
