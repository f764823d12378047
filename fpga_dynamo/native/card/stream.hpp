// Streams between compute units: FIFOs whose elements are bytes here, because each unit has a copy of the kernel code.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "card_abi.hpp"

namespace card_model {

struct stream_info {
    std::string name;  // "reader_1.out:adder_1.in"
    uint32_t depth;    // elements
};

// The streams of a loaded xclbin. What a run leaves in them stays for the next, as on a card.
class stream_network {
public:
    explicit stream_network(const std::vector<stream_info>& streams);
    ~stream_network();
    stream_network(const stream_network&) = delete;
    stream_network& operator=(const stream_network&) = delete;

    // An entry for each argument of a compute unit's kernel. numbers: of the arguments' streams; -1: it is no stream.
    std::vector<fpga::cu_stream> ends(const std::vector<int>& numbers);

private:
    class fifo;
    std::mutex mutex_;
    std::condition_variable moved_;
    std::vector<std::unique_ptr<fifo>> fifos_;
};

}  // namespace card_model
