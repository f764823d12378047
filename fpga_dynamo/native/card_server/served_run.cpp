#include "served_run.hpp"

#include <algorithm>
#include <chrono>

#include "error.hpp"
#include "json_text.hpp"
#include "scalar_text.hpp"

namespace card_server {

using card_model::ert_state;

namespace {

constexpr unsigned LOOK_MS = 250;  // after this time a wait looks whether the session has ended

bool under_way(ert_state state) {
    return state == ert_state::queued || state == ert_state::running || state == ert_state::submitted;
}

}  // namespace

std::unique_lock<std::mutex> session_run::hold() {
    std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) throw card_model::error("this run is under way already; wait for it, or make another run object");
    return lock;
}

void session_run::set_buffer(uint32_t index, std::shared_ptr<served_buffer> value) {
    run_->set_buffer(index, *value);
    if (arguments_.size() <= index) arguments_.resize(index + 1);
    arguments_[index] = std::move(value);
}

void session_run::set_scalar(uint32_t index, const card_model::json::value& value) {
    const auto [title, bytes] = kernel_->scalar(index);
    if (bytes == 0) {
        if (value.kind() == card_model::json::value::type::null) return;  // a stream
        throw card_model::error(title + " must be a buffer");
    }
    const std::vector<uint8_t> image = scalar_bytes(value, bytes, title);
    run_->set_scalar(index, image.data(), image.size());
}

std::string session_run::described(ert_state state) {
    return json_object().text("state", card_model::to_string(state)).text("error_of_run", run_->error()).str();
}

std::string session_run::start() {
    run_->start();
    return state();
}

ert_state session_run::wait_sliced(unsigned timeout_ms) {
    using clock = std::chrono::steady_clock;
    const auto end = clock::now() + std::chrono::milliseconds(timeout_ms);
    for (;;) {
        unsigned slice = LOOK_MS;
        if (timeout_ms) {
            const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - clock::now()).count();
            slice = static_cast<unsigned>(std::clamp<int64_t>(left, 1, LOOK_MS));
        }
        const ert_state state = run_->wait(slice);
        if (state != ert_state::timeout || has_ended_ || (timeout_ms && clock::now() >= end)) return state;
    }
}

std::string session_run::execute(const launch& what, served_buffer* memory, bool& completed) {
    if (what.traced != traced_) run_->trace_steps(traced_ = what.traced);
    ert_state state{};
    if (memory) {
        state = run_->execute(*memory, what.inputs, what.outputs, what.timeout_ms, what.reads_status);
    } else {
        run_->start();
        state = wait_sliced(what.timeout_ms);
        if (state == ert_state::timeout) run_->abort();
    }
    completed = state == ert_state::completed;
    const auto [begin, end] = run_->times();
    const auto pair = [](int64_t first, int64_t last) {
        return json_array().add(std::to_string(first)).add(std::to_string(last)).str();
    };
    json_object result;
    result.text("state", card_model::to_string(state)).text("error_of_run", run_->error());
    result.raw("times", pair(begin, end));
    if (completed && traced_) {
        json_array steps;
        for (const card_model::step_time& step : run_->steps()) steps.add(pair(step.start_ns, step.stop_ns));
        result.raw("steps", steps.str());
    }
    if (const std::string counters = completed ? run_->counters() : ""; !counters.empty())
        result.text("counters", counters);
    return result.str();
}

void session_run::end() {
    try {
        if (under_way(run_->state())) run_->abort();
    } catch (const std::exception&) {  // of a card that has gone
    }
}

}  // namespace card_server
