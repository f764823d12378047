#include "running.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "checked.hpp"
#include "emulation.hpp"

namespace {

using std::chrono::steady_clock;

constexpr uint64_t RECORD_BYTES = 64;               // of the status record; more than its two words
constexpr auto PATIENCE = std::chrono::seconds(3);  // with a card that is asked to end a run

int64_t now_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

// Runs that nobody refers to any more, and what they need.
struct abandoned_run {
    std::shared_ptr<kernel> opened;
    fork_safe<xrt::run> object;
    ert_packet* packet;
    std::vector<buffer> buffers;
};

class abandoned_runs {
public:
    static abandoned_runs& instance() {
        static abandoned_runs& only = *new abandoned_runs;
        return only;
    }
    void take(abandoned_run one) {
        release_ended();
        std::lock_guard lock(mutex_);
        runs_.push_back(std::move(one));
    }
    void release_ended() {
        std::vector<abandoned_run> ended;  // let go without the lock
        std::lock_guard lock(mutex_);
        const auto first = std::partition(runs_.begin(), runs_.end(),
                                          [](const abandoned_run& o) { return !is_end(state_of(o.packet)); });
        std::move(first, runs_.end(), std::back_inserter(ended));
        runs_.erase(first, runs_.end());
    }
    // The kernel of a run on this card; empty if no run is active.
    std::string busy(const card& owner) {
        std::lock_guard lock(mutex_);
        const auto found = std::find_if(runs_.begin(), runs_.end(),
                                        [&](const abandoned_run& o) { return o.opened->owner.get() == &owner; });
        return found == runs_.end() ? "" : found->opened->name;
    }

private:
    std::mutex mutex_;
    std::vector<abandoned_run> runs_;
};

device_error under_way(const std::string& kernel) {
    return device_error("a run of kernel '" + kernel + "' is under way; wait for it before another xclbin is loaded");
}

}  // namespace

running::running(std::shared_ptr<kernel> kernel)
    : kernel_(std::move(kernel)),
      object_(checked([] { return "a run"; },
                      [&] {
                          kernel_->check_loaded();
                          return xrt::run(kernel_->object.get());
                      })),
      packet_(object_.get().get_ert_packet()),
      buffers_(kernel_->arguments.size()),
      set_(kernel_->arguments.size()) {
    abandoned_runs::instance().release_ended();
    if (!kernel_->load) return;
    std::lock_guard lock(kernel_->owner->opening);
    kernel_->owner->runs_of_kernels.insert(this);
}

running::~running() {
    if (card_model::forked()) return;
    {
        std::lock_guard lock(kernel_->owner->opening);
        kernel_->owner->runs_of_kernels.erase(this);
    }
    if (!started_ || ended()) return;
    abandoned_runs::instance().take({std::move(kernel_), std::move(object_), packet_, std::move(latched_)});
}

void running::check_left(const card& owner) {
    abandoned_runs::instance().release_ended();
    if (const std::string name = abandoned_runs::instance().busy(owner); !name.empty()) throw under_way(name);
}

void running::check_closable() const {
    if (started_ && !ended()) throw under_way(kernel_->name);
}

void running::close() {
    std::lock_guard lock(mutex_);
    finish();
    closed_error_ = error();
    closed_ = {};
    closed_.state = state();
    packet_ = &closed_;
    object_ = {};
    buffers_.clear();
    latched_.clear();
}

bool running::ended() const { return is_end(state_of(packet_)); }

void running::set_buffer(uint32_t index, const buffer& value) {
    const argument& wanted = kernel_->at(index);
    std::string title = "argument " + std::to_string(index) + " ('" + wanted.name + "') of kernel '" + kernel_->name +
                        "'";
    if (!wanted.global) throw device_error(title + " is a scalar, not a buffer");
    kernel_->check_loaded();
    if (value.owner != kernel_->owner) throw device_error(title + ": the buffer belongs to another card");
    checked([&] { return title; }, [&] { object_.get().set_arg(static_cast<int>(index), value.object.get()); });
    buffers_[index] = value;
    set_[index] = true;
}

void running::set_scalar(uint32_t index, const void* bytes, size_t count) {
    kernel_->check_loaded();
    checked([&] { return "argument " + std::to_string(index) + " of kernel '" + kernel_->name + "'"; },
            [&] { object_.get().set_arg(static_cast<int>(index), bytes, count); });
    set_[index] = true;
}

void running::start() {
    kernel_->check_loaded();
    for (size_t i = 0; i < set_.size(); ++i)
        if (!set_[i])
            throw device_error("argument " + std::to_string(i) + " ('" + kernel_->arguments[i].name + "') of kernel '" +
                               kernel_->name + "' has not been set");
    translated([&] { return "kernel '" + kernel_->name + "' cannot be started"; },
               [&] {
                   std::lock_guard lock(mutex_);
                   if (started_ && !ended() && overdue_)
                       throw device_error(
                           "kernel '" + kernel_->name +
                           "' is still busy with a run that passed its time-out and that "
                           "the card has not ended; reset the card (`xbutil reset`) and start another process");
                   if (started_ && !ended())
                       throw device_error("this run of kernel '" + kernel_->name +
                                          "' is under way already; wait for it, or make "
                                          "another run object");
                   finish();
                   latched_ = buffers_;
                   number_run(packet_);
                   start_ns_ = now_ns();
                   object_.get().start();
                   started_ = true;
                   finished_ = overdue_ = false;
                   refused_ = 0;
                   if (!callbacks_.empty()) watch();
                   std::lock_guard counting(kernel_->owner->mutex);
                   ++kernel_->owner->runs;
               });
}

void running::finish() {
    if (finished_) return;
    stop_ns_ = now_ns();
    object_.get().wait(std::chrono::milliseconds(1));
    finished_ = true;
}

ert_cmd_state running::wait(unsigned timeout_ms) {
    return translated([&] { return "waiting for kernel '" + kernel_->name + "'"; },
                      [&] {
                          if (!started_ || packet_ == &closed_) return state_of(packet_);  // XRT would wait forever
                          const auto deadline = timeout_ms ? steady_clock::now() + std::chrono::milliseconds(timeout_ms)
                                                           : steady_clock::time_point::max();
                          if (!kernel_->owner->completions.wait(packet_, deadline)) {
                              overdue_ = true;
                              return ERT_CMD_STATE_TIMEOUT;
                          }
                          std::lock_guard lock(mutex_);
                          finish();
                          return state();
                      });
}

ert_cmd_state running::execute(const buffer& memory, extent inputs, extent outputs, unsigned timeout_ms) {
    if (inputs.bytes()) memory.sync(XCL_BO_SYNC_BO_TO_DEVICE, inputs.bytes(), inputs.begin);
    start();
    // The emulator inside of this process needs no other thread for a run that is waited for.
    using function = bool (*)(void*, const void*, unsigned);
    static const auto execute_here = reinterpret_cast<function>(dlsym(RTLD_DEFAULT, "fpga_dynamo_execute"));
    if (execute_here) execute_here(kernel_->owner->handle(), packet_, timeout_ms);
    const ert_cmd_state state = wait(timeout_ms);
    if (state == ERT_CMD_STATE_TIMEOUT) abort();
    if (state == ERT_CMD_STATE_COMPLETED && reads_status && !has_succeeded(memory)) return ERT_CMD_STATE_ERROR;
    if (state == ERT_CMD_STATE_COMPLETED && outputs.bytes())
        memory.sync(XCL_BO_SYNC_BO_FROM_DEVICE, outputs.bytes(), outputs.begin);
    return state;
}

bool running::has_succeeded(const buffer& memory) {
    uint32_t record[RECORD_BYTES / sizeof(uint32_t)];
    memory.sync(XCL_BO_SYNC_BO_FROM_DEVICE, RECORD_BYTES, 0);
    memory.read(reinterpret_cast<uint64_t>(record), RECORD_BYTES, 0);
    if (record[0] != 0) refused_ = uint64_t{record[1]} << 32 | record[0];
    return record[0] == 0;
}

ert_cmd_state running::abort() {
    return translated([&] { return "ending a run of kernel '" + kernel_->name + "'"; },
                      [&] {
                          if (!started_ || ended()) return state();
                          if (!cancel_in_model(packet_)) {
                              // XRT's own returns when the card has obeyed, which it may never do.
                              xrt::run same = object_.get();
                              std::thread([same]() mutable {
                                  try {
                                      same.abort();
                                  } catch (const std::exception&) {  // a card that cannot end a run; the state tells
                                  }
                              }).detach();
                          }
                          if (kernel_->owner->completions.wait(packet_, steady_clock::now() + PATIENCE)) {
                              std::lock_guard lock(mutex_);
                              finish();
                          }
                          return state();
                      });
}

ert_cmd_state running::state() const {
    const ert_cmd_state now = state_of(packet_);
    if (now == ERT_CMD_STATE_COMPLETED && refused_) return ERT_CMD_STATE_ERROR;
    if (packet_ != &closed_ && now == ERT_CMD_STATE_COMPLETED)
        if (const auto failure = failure_in_model(packet_)) return failure->state;
    return now;
}

std::string running::error() const {
    if (packet_ == &closed_) return closed_error_;
    if (!started_ || !ended() || state() == ERT_CMD_STATE_COMPLETED) return "";
    if (const uint64_t record = refused_)
        return "command " + std::to_string(record >> 32) + " ended with status " + std::to_string(record & 0xffffffff) +
               " (STATUS_* of hls_kernels/command.hpp)";
    if (const auto failure = failure_in_model(packet_)) return failure->sentence;
    using function = const char* (*)(void*, const void*);
    static const auto error_of = reinterpret_cast<function>(dlsym(RTLD_DEFAULT, "fpga_dynamo_error_of"));
    return error_of ? error_of(kernel_->owner->handle(), packet_) : "";
}

void running::add_callback(std::function<void(ert_cmd_state)> function) {
    std::lock_guard lock(mutex_);
    callbacks_.push_back(std::move(function));
    if (started_ && ended()) callbacks_.back()(state());
}

// XRT's own callbacks need a thread of XRT's that asks the driver for news, of which the driver has but one copy.
void running::watch() {
    std::thread([object = object_, packet = packet_, owner = kernel_->owner, callbacks = callbacks_] {
        try {
            owner->completions.wait(packet, steady_clock::time_point::max());
        } catch (const device_error&) {  // the card is lost; whoever waits is told
        }
        for (const auto& call : callbacks) call(state_of(packet));
    }).detach();
}
