// hls::stream_of_blocks in a co-simulation: a block is read when its writer has released it, and written again when its
// reader has. Blocks run ahead of time, as elements of streams do.
#pragma once
#include <cstddef>
#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "sim/cosim/fifo.hpp"

namespace sim::cosim {

// The turns of the blocks of one stream.
class turns {
public:
    explicit turns(std::size_t depth) : depth_(depth) {}

    void write_acquire() {
        if (current() && written_ >= depth_) wait(freed_, written_ - depth_);
        written_++;
    }
    void write_release() {
        pass(filled_, released_++);
        if (reader_) waiting_process::wake(reader_);
    }
    void read_acquire(const stall_cause& blocks) {
        while (released_ <= taken_) {
            const waiting_process until_left(reader_, self());
            suspend(self(), blocks, 0);
        }
        if (current()) wait(filled_, taken_);
        taken_++;
    }
    void read_release() { pass(freed_, gone_++); }
    bool empty() const { return released_ == taken_; }

private:
    static std::uint32_t token(std::vector<std::uint32_t>& all, std::size_t number) {
        while (all.size() <= number) all.push_back(whole().net.new_token());
        return all[number];
    }
    static void wait(std::vector<std::uint32_t>& all, std::size_t number) {
        control& c = *current();
        c.await(token(all, number), 1);
        c.reach(c.base);
        c.hold_back();
    }
    static void pass(std::vector<std::uint32_t>& all, std::size_t number) {
        control* c = current();
        if (!c) return;
        c->post(token(all, number), 0);
        c->base++;
        c->reach(c->base);
    }

    std::size_t depth_, written_ = 0, released_ = 0, taken_ = 0, gone_ = 0;
    std::vector<std::uint32_t> filled_, freed_;  // tokens by block
    process* reader_ = nullptr;
};

}  // namespace sim::cosim

namespace hls {

template <class Block_, int DEPTH_ = 2>
class stream_of_blocks : public sim::stall_cause {
public:
    explicit stream_of_blocks(const char* name = nullptr) : name_(name ? name : "a stream of blocks"), turns_(DEPTH_) {}
    virtual ~stream_of_blocks() = default;
    stream_of_blocks(const stream_of_blocks&) = delete;
    stream_of_blocks& operator=(const stream_of_blocks&) = delete;

    bool empty() const { return turns_.empty(); }
    bool full() const { return false; }

    Block_& write_acquire() {
        turns_.write_acquire();
        return blocks_.emplace_back().block;
    }
    void write_release() { turns_.write_release(); }
    Block_& read_acquire() {
        turns_.read_acquire(*this);
        return blocks_.front().block;
    }
    void read_release() {
        blocks_.pop_front();
        turns_.read_release();
    }
    std::string cause(int) const override { return "'" + name_ + "'"; }
    std::string waiting(int) const override { return "for a block of '" + name_ + "'"; }

private:
    struct held {
        Block_ block = {};  // which may be an array
    };
    std::string name_;
    sim::cosim::turns turns_;
    std::deque<held> blocks_;
};

// Gives a block back at the end of a scope.
template <class Block_>
class held_block {
public:
    held_block(Block_& block, std::function<void()> release) : block_(block), release_(std::move(release)) {}
    ~held_block() { release_(); }
    held_block(const held_block&) = delete;
    operator Block_&() { return block_; }

private:
    Block_& block_;
    std::function<void()> release_;
};

template <class Block_, int DEPTH_ = 2>
class write_lock : public held_block<Block_> {
public:
    template <int D_>
    explicit write_lock(stream_of_blocks<Block_, D_>& blocks)
        : held_block<Block_>(blocks.write_acquire(), [&blocks] { blocks.write_release(); }) {}
};

template <class Block_, int DEPTH_ = 2>
class read_lock : public held_block<Block_> {
public:
    template <int D_>
    explicit read_lock(stream_of_blocks<Block_, D_>& blocks)
        : held_block<Block_>(blocks.read_acquire(), [&blocks] { blocks.read_release(); }) {}
};

}  // namespace hls
