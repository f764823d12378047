// Stands in for the header of Vitis HLS: channels between one process and several. In a dataflow region xclbin_build makes each
// a process of its own (`step`), which moves one element at a time.
#pragma once
#include <array>
#include <cstddef>
#include <utility>

#include <hls_stream.h>
#include <hls_vector.h>

namespace hls {

namespace np_channel_detail {

// Whose turn it is among N_ streams.
template <int N_>
class turns {
public:
    int next() { return advance(next_); }
    // The first stream, from the next one on, that has an element (sim::fifo::EMPTY) or a place (sim::fifo::FULL).
    template <class Stream>
    int ready(Stream (&streams)[N_], int why) {
        sim::fifo* ends[N_];
        for (int i = 0; i < N_; i++) ends[i] = &streams[(next_ + i) % N_].fifo();
        return advance((next_ + static_cast<int>(sim::fifo::await_any(ends, N_, why))) % N_);
    }

private:
    int advance(int chosen) {
        next_ = (chosen + 1) % N_;
        return chosen;
    }
    int next_ = 0;
};

}  // namespace np_channel_detail

namespace split {

// DEPTH_: of the streams to the consumers; N_PORT_DEPTH_: of the stream from the producer.
template <class T_, int N_, int DEPTH_ = 2, int N_PORT_DEPTH_ = 0>
class round_robin {
public:
    stream<T_, N_PORT_DEPTH_ ? N_PORT_DEPTH_ : DEPTH_> in;
    stream<T_, DEPTH_> out[N_];

    void step() { out[turns_.next()].write(in.read()); }

private:
    np_channel_detail::turns<N_> turns_;
};

// Each element goes to the next consumer that has a place.
template <class T_, int N_, int DEPTH_ = 2, int N_PORT_DEPTH_ = 0>
class load_balance {
public:
    stream<T_, N_PORT_DEPTH_ ? N_PORT_DEPTH_ : DEPTH_> in;
    stream<T_, DEPTH_> out[N_];

    void step() {
        T_ value = in.read();
        out[turns_.ready(out, sim::fifo::FULL)].write(value);
    }

private:
    np_channel_detail::turns<N_> turns_;
};

}  // namespace split

namespace merge {

template <class T_, int N_, int DEPTH_ = 2, int N_PORT_DEPTH_ = 0>
class round_robin {
public:
    stream<T_, DEPTH_> in[N_];
    stream<T_, N_PORT_DEPTH_ ? N_PORT_DEPTH_ : DEPTH_> out;

    void step() { out.write(in[turns_.next()].read()); }

private:
    np_channel_detail::turns<N_> turns_;
};

// The next element comes from the next producer that has one.
template <class T_, int N_, int DEPTH_ = 2, int N_PORT_DEPTH_ = 0>
class load_balance {
public:
    stream<T_, DEPTH_> in[N_];
    stream<T_, N_PORT_DEPTH_ ? N_PORT_DEPTH_ : DEPTH_> out;

    void step() { out.write(in[turns_.ready(in, sim::fifo::EMPTY)].read()); }

private:
    np_channel_detail::turns<N_> turns_;
};

}  // namespace merge

}  // namespace hls
