#include "stream.hpp"

#include <chrono>
#include <cstring>

#include "faults.hpp"

namespace card_model {

namespace {

constexpr auto LONGEST_WAIT = std::chrono::milliseconds(20);  // a cancelled run is noticed behind it

// Kernel code must not be interrupted while it holds a lock of the card.
class uninterrupted {
public:
    uninterrupted() : guard_(suspend()) {}
    ~uninterrupted() { resume(guard_); }
    uninterrupted(const uninterrupted&) = delete;
    uninterrupted& operator=(const uninterrupted&) = delete;

private:
    detail::guard* guard_;
};

}  // namespace

class stream_network::fifo {
public:
    fifo(stream_network& network, stream_info info) : network_(network), info_(std::move(info)) {}

    const stream_info& info() const { return info_; }

    uint64_t open(uint64_t bytes) {
        std::lock_guard lock(network_.mutex_);
        if (bytes_ == 0) {
            bytes_ = bytes;
            places_.resize(bytes * info_.depth);
        }
        return bytes_;
    }
    bool write(const void* element) {
        std::lock_guard lock(network_.mutex_);
        if (filled_ - freed_ == info_.depth) return false;
        std::memcpy(place(filled_++), element, bytes_);
        network_.moved_.notify_all();
        return true;
    }
    bool read(void* element) {
        std::lock_guard lock(network_.mutex_);
        if (filled_ == freed_) return false;
        std::memcpy(element, place(freed_++), bytes_);
        network_.moved_.notify_all();
        return true;
    }
    uint64_t size() const {
        std::lock_guard lock(network_.mutex_);
        return filled_ - freed_;
    }
    void wait(bool for_element) const {
        std::unique_lock lock(network_.mutex_);
        network_.moved_.wait_for(lock, LONGEST_WAIT,
                                 [&] { return for_element ? filled_ != freed_ : filled_ - freed_ != info_.depth; });
    }

private:
    uint8_t* place(uint64_t element) { return places_.data() + element % info_.depth * bytes_; }

    stream_network& network_;
    const stream_info info_;
    uint64_t bytes_ = 0;               // of an element; known when the first end is used
    uint64_t filled_ = 0, freed_ = 0;  // elements that have been written and read
    std::vector<uint8_t> places_;
};

stream_network::stream_network(const std::vector<stream_info>& streams) {
    for (const stream_info& info : streams) fifos_.push_back(std::make_unique<fifo>(*this, info));
}

stream_network::~stream_network() = default;

std::vector<fpga::cu_stream> stream_network::ends(const std::vector<int>& numbers) {
    fpga::cu_stream end{};
    end.open = [](void* f, uint64_t bytes) {
        const uninterrupted here;
        return static_cast<fifo*>(f)->open(bytes);
    };
    end.write = [](void* f, const void* element) {
        const uninterrupted here;
        return static_cast<fifo*>(f)->write(element);
    };
    end.read = [](void* f, void* element) {
        const uninterrupted here;
        return static_cast<fifo*>(f)->read(element);
    };
    end.size = [](void* f) {
        const uninterrupted here;
        return static_cast<fifo*>(f)->size();
    };
    end.wait = [](void* f, bool for_element) {
        const uninterrupted here;
        static_cast<fifo*>(f)->wait(for_element);
    };
    std::vector<fpga::cu_stream> found(numbers.size(), end);
    for (size_t i = 0; i < numbers.size(); ++i) {
        if (numbers[i] < 0) continue;
        fifo& stream = *fifos_[static_cast<size_t>(numbers[i])];
        found[i].fifo = &stream;
        found[i].name = stream.info().name.c_str();
        found[i].depth = stream.info().depth;
    }
    return found;
}

}  // namespace card_model
