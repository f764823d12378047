// A run of a session. One whose client has gone is ended.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "json.hpp"
#include "served_card.hpp"

namespace card_server {

// A start with what is copied before and after it.
struct launch {
    std::vector<card_model::transfer> inputs, outputs;
    unsigned timeout_ms;
    bool reads_status, traced;
};

class session_run {
public:
    // has_ended: whether the client has gone; it must outlive this.
    session_run(std::shared_ptr<served_kernel> kernel, const std::atomic<bool>& has_ended)
        : kernel_(std::move(kernel)), run_(kernel_->make_run()), has_ended_(has_ended) {}

    // Held by whoever sets arguments and starts. Throws card_model::error if another request does so already.
    std::unique_lock<std::mutex> hold();

    void set_buffer(uint32_t index, std::shared_ptr<served_buffer> value);
    // value: JSON of a number, or ["float", text], ["bytes", hexadecimal].
    void set_scalar(uint32_t index, const card_model::json::value& value);

    // Each is JSON with the state, and why the run did not complete.
    std::string start();
    std::string state() { return described(run_->state()); }
    std::string wait(unsigned timeout_ms) { return described(wait_sliced(timeout_ms)); }
    std::string abort() { return described(run_->abort()); }
    // completed: whether outputs are there. memory: null for a launch without inputs and outputs.
    std::string execute(const launch& what, served_buffer* memory, bool& completed);

    // Ends the run if it is under way: nobody waits for it any more.
    void end();

private:
    std::string described(card_model::ert_state state);
    card_model::ert_state wait_sliced(unsigned timeout_ms);

    const std::shared_ptr<served_kernel> kernel_;
    const std::unique_ptr<served_run> run_;
    const std::atomic<bool>& has_ended_;
    std::mutex mutex_;
    bool traced_ = false;
    std::vector<std::shared_ptr<served_buffer>> arguments_;  // kept, as a run keeps its buffers
};

}  // namespace card_server
