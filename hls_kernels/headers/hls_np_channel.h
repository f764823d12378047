// Stands in for the header of Vitis HLS: channels between one process and several. In a dataflow region xclbin_build makes each
// a process of its own (`step`), which moves one element at a time.
#pragma once
#include <array>
#include <cstddef>
#include <utility>

#include <hls_stream.h>
#include <hls_vector.h>

namespace hls {

namespace split {

// DEPTH_: of the streams to the consumers; N_PORT_DEPTH_: of the stream from the producer.
template <class T_, int N_, int DEPTH_ = 2, int N_PORT_DEPTH_ = 0>
class round_robin {
public:
    stream<T_, N_PORT_DEPTH_ ? N_PORT_DEPTH_ : DEPTH_> in;
    stream<T_, DEPTH_> out[N_];

    void step() {
        out[next_].write(in.read());
        next_ = (next_ + 1) % N_;
    }

private:
    int next_ = 0;
};

// Each element goes to the next consumer that has a place.
template <class T_, int N_, int DEPTH_ = 2, int N_PORT_DEPTH_ = 0>
class load_balance {
public:
    stream<T_, N_PORT_DEPTH_ ? N_PORT_DEPTH_ : DEPTH_> in;
    stream<T_, DEPTH_> out[N_];

    void step() {
        sim::fifo* ends[N_];
        for (int i = 0; i < N_; i++) ends[i] = &out[(next_ + i) % N_].fifo();
        T_ value = in.read();
        const int found = (next_ + static_cast<int>(sim::fifo::await_any(ends, N_, sim::fifo::FULL))) % N_;
        out[found].write(value);
        next_ = (found + 1) % N_;
    }

private:
    int next_ = 0;
};

}  // namespace split

namespace merge {

template <class T_, int N_, int DEPTH_ = 2, int N_PORT_DEPTH_ = 0>
class round_robin {
public:
    stream<T_, DEPTH_> in[N_];
    stream<T_, N_PORT_DEPTH_ ? N_PORT_DEPTH_ : DEPTH_> out;

    void step() {
        out.write(in[next_].read());
        next_ = (next_ + 1) % N_;
    }

private:
    int next_ = 0;
};

// The next element comes from the next producer that has one.
template <class T_, int N_, int DEPTH_ = 2, int N_PORT_DEPTH_ = 0>
class load_balance {
public:
    stream<T_, DEPTH_> in[N_];
    stream<T_, N_PORT_DEPTH_ ? N_PORT_DEPTH_ : DEPTH_> out;

    void step() {
        sim::fifo* ends[N_];
        for (int i = 0; i < N_; i++) ends[i] = &in[(next_ + i) % N_].fifo();
        const int found = (next_ + static_cast<int>(sim::fifo::await_any(ends, N_, sim::fifo::EMPTY))) % N_;
        out.write(in[found].read());
        next_ = (found + 1) % N_;
    }

private:
    int next_ = 0;
};

}  // namespace merge

}  // namespace hls
