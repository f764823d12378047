#include "compute_unit.hpp"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "cpu.hpp"
#include "error.hpp"
#include "stray_access.hpp"
#include "watchdog.hpp"

namespace card_model {

namespace {

constexpr int64_t IDLE_SPIN_NS = 20000;
constexpr uint32_t MAX_SLICES = 0xffff;           // of lane_team
constexpr uint32_t STATUS_CRASHED = 0xffffffffu;  // what `end` is told when no status was returned

// The number of slices of a step that is worth `wanted` parts, each about a microsecond of work. Several slices a lane
// balance the load when a lane starts late. A small step has few slices, because starting a slice has a cost too.
uint32_t slices_for(unsigned lanes, uint32_t wanted) {
    constexpr uint32_t LEAST = 2, MOST = 4, WORTH = 32;
    const uint32_t of_a_lane = std::clamp(wanted / (WORTH * lanes), LEAST, MOST);
    return std::clamp<uint32_t>(wanted, 1, std::min(of_a_lane * lanes, MAX_SLICES));
}

// Of the map up to the last argument.
uint32_t register_bytes(const kernel_info& kernel) {
    uint32_t end = register_file::RESULTS_CONTROL + 4;
    for (const argument_info& argument : kernel.arguments)
        end = std::max(end, (argument.offset + argument.bytes + 3) / 4 * 4);
    return std::min(end, fpga::CU_REGISTER_BYTES);
}

void* translate(void* card, uint64_t address, uint64_t* bytes) {
    detail::guard* guard = suspend();
    void* host = static_cast<const address_space*>(card)->translate(address, bytes);
    resume(guard);
    return host;
}

}  // namespace

// Fills a command's step times if it wants them.
class compute_unit::step_clock {
public:
    step_clock(ert_command& command, uint32_t steps) : command_(command) {
        command_.steps.clear();
        if (command_.trace_steps) command_.steps.reserve(steps);
    }
    void start() {
        if (command_.trace_steps) start_ns_ = monotonic_ns();
    }
    void stop() {
        if (command_.trace_steps) command_.steps.push_back({start_ns_, monotonic_ns()});
    }
    void skip() {
        if (command_.trace_steps) command_.steps.push_back({0, 0});
    }

private:
    ert_command& command_;
    int64_t start_ns_ = 0;
};

// A command under way: what its lanes share.
struct compute_unit::activity {
    compute_unit& unit;
    ert_command& command;
    fpga::cu_call call{};
    uint32_t step = 0;
    uint32_t slices = 1;
    std::mutex mutex;  // of the first failure
    std::atomic<bool> failed{false};
    outcome how = outcome::returned;
    uint32_t status = 0;
    std::string error;

    activity(compute_unit& u, ert_command& c) : unit(u), command(c) {
        call.registers = c.registers;
        call.windows = c.windows.data();
        call.window_count = static_cast<uint32_t>(c.windows.size());
        call.streams = u.streams_.empty() ? nullptr : u.streams_.data();
        call.translate = translate;
        call.card = const_cast<address_space*>(&u.memory_);
    }

    // Calls kernel code; false if the run is over because of it.
    template <typename Call>
    bool run(const char* where, Call&& kernel_code, int tolerated = 0) {
        fault what;
        const outcome result = guarded(command.cancelled, tolerated, what, kernel_code);
        if (result == outcome::returned) return true;
        fail(result, STATUS_CRASHED, text_of(result, what, where));
        return false;
    }

    void fail(outcome result, uint32_t code, const std::string& text) {
        std::lock_guard lock(mutex);
        if (failed.load(std::memory_order_relaxed)) return;  // the first failure is the cause
        how = result;
        status = code;
        error = "kernel '" + unit.kernel_.name + "' (compute unit " + unit.info_.name + ") " + text;
        failed.store(true, std::memory_order_release);
    }

    void check_buffers() {
        const std::string stray = take_stray_writes(unit.kernel_, command, unit.memory_);
        if (stray.empty()) return;
        if (failed)
            error += "; it also " + stray;
        else
            fail(outcome::returned, STATUS_CRASHED, stray);
    }

    std::string text_of(outcome result, const fault& what, const std::string& where) const {
        if (result == outcome::cancelled) return behind("was ended", where);
        if (result == outcome::left) return what.text + (where.empty() ? "" : " (" + where + ")");
        if (const size_t stack = what.signal == SIGSEGV ? overflowed_stack(what.address) : 0)
            return behind("crashed: local variables overflow its thread's stack of " + std::to_string(stack >> 20) +
                              " MiB",
                          where) +
                   "; make large arrays static, or pass them by a pointer";
        const std::string place = describe_access(unit.kernel_, command, unit.memory_, what.address);
        return behind("crashed: " + card_model::describe(what) + (place.empty() ? "" : " (" + place + ")"), where);
    }

    static std::string behind(const std::string& text, const std::string& where) {
        return where.empty() ? text : text + " " + where;
    }

    // Where there is but one slice, as in all plain kernels, it goes without saying.
    std::string position(uint32_t slice) const {
        if (call.steps == 1 && slices == 1) return "";
        return "in step " + std::to_string(step) + ", slice " + std::to_string(slice) + " of " + std::to_string(slices);
    }

    void run_slice(uint32_t slice) {
        if (failed.load(std::memory_order_acquire)) return;
        volatile uint32_t code = 0;
        fault what;
        const outcome result = guarded(command.cancelled, 0, what,
                                       [&] { code = unit.entry_->execute(&call, step, slice, slices); });
        if (result != outcome::returned)
            fail(result, STATUS_CRASHED, text_of(result, what, position(slice)));
        else if (code != 0)
            fail(result, code, behind("reported status " + std::to_string(code), position(slice)));
    }
};

compute_unit::compute_unit(const kernel_info& kernel, compute_unit_info info, kernel_code& code, lane_team& team,
                           size_t board, const address_space& memory, std::vector<fpga::cu_stream> streams)
    : kernel_(kernel),
      info_(std::move(info)),
      code_(code),
      stack_(code.entry(kernel.name).stack),
      team_(team),
      board_(board),
      memory_(memory),
      streams_(std::move(streams)),
      registers_(kernel.has_mailbox, kernel.restarts, register_bytes(kernel)) {
    team_.need_stack(stack_);
}

compute_unit::~compute_unit() {
    {
        std::lock_guard lock(mutex_);
        stopping_ = true;
        if (current_) interrupt_running(*current_, ert_state::abort);  // a kernel that runs for ever
    }
    wake_.notify_all();
    if (thread_.joinable()) thread_.join();
}

void compute_unit::enqueue(std::shared_ptr<ert_command> command) {
    {
        std::lock_guard lock(mutex_);
        if (!thread_.joinable()) thread_ = kernel_thread(stack_, [this] { serve(); });
        command->set_state(ert_state::queued);
        queue_.push_back(std::move(command));
        load_.fetch_add(1, std::memory_order_relaxed);
    }
    wake_.notify_one();
}

void compute_unit::run_for_ever() {
    auto command = std::make_shared<ert_command>();
    command->add_callback([command = command.get()](ert_state state) {
        if (state == ert_state::error) std::fprintf(stderr, "fpga_dynamo: %s\n", command->error().c_str());
    });
    enqueue(std::move(command));
}

// A caller who waits for a stream would not start the compute unit at its other end.
bool compute_unit::must_run_on_own_thread() const { return !streams_.empty() || !stack_has(stack_); }

bool compute_unit::execute(ert_command& command, unsigned timeout_ms) {
    if (must_run_on_own_thread()) return false;
    {
        std::lock_guard lock(mutex_);
        if (current_ || !queue_.empty()) return false;
        current_ = &command;
        executor_ = pthread_self();
        load_.fetch_add(1, std::memory_order_relaxed);
    }
    if (timeout_ms) watchdog::instance().arm(*this, command, timeout_ms);
    perform(command);
    return true;
}

bool compute_unit::execute_queued(const ert_command& command, unsigned timeout_ms) {
    if (must_run_on_own_thread()) return false;
    std::shared_ptr<ert_command> taken;
    {
        std::lock_guard lock(mutex_);
        if (current_ || queue_.empty() || queue_.front().get() != &command) return false;
        taken = std::move(queue_.front());
        queue_.pop_front();
        current_ = taken.get();
        executor_ = pthread_self();
    }
    if (timeout_ms) watchdog::instance().arm(*this, *taken, timeout_ms);
    perform(*taken);
    return true;
}

void compute_unit::serve() {
    block_foreign_signals();
    for (;;) {
        // Somebody who starts a run in a loop should not pay for waking this thread each time.
        if (spinning_pays())
            for (const int64_t stop = monotonic_ns() + IDLE_SPIN_NS; !load() && monotonic_ns() < stop;) cpu_relax();
        std::shared_ptr<ert_command> command;
        {
            std::unique_lock lock(mutex_);
            wake_.wait(lock, [this] { return stopping_ || (!current_ && !queue_.empty()); });
            if (stopping_) return;
            command = std::move(queue_.front());
            queue_.pop_front();
            current_ = command.get();
            executor_ = pthread_self();
        }
        perform(*command);
    }
}

void compute_unit::perform(ert_command& command) {
    prepare_thread();
    command.compute_unit.store(&info_.name, std::memory_order_relaxed);
    command.start_ns.store(monotonic_ns(), std::memory_order_relaxed);
    command.set_state(ert_state::running);
    activity a(*this, command);
    try {
        load_code();
        step_through(a);
    } catch (const error& reason) {
        a.fail(outcome::returned, STATUS_CRASHED, std::string("cannot be loaded: ") + reason.what());
    }
    if (kernel_.watch_buffers) a.check_buffers();
    command.status.store(a.status, std::memory_order_relaxed);
    command.stop_ns.store(monotonic_ns(), std::memory_order_relaxed);
    watchdog::instance().disarm(command);
    bool more = false;
    {
        std::lock_guard lock(mutex_);
        current_ = nullptr;
        load_.fetch_sub(1, std::memory_order_relaxed);
        more = !queue_.empty();
    }
    registers_.end_start();
    if (more) wake_.notify_one();
    if (!a.failed) return command.finish(ert_state::completed, "");
    if (a.how == outcome::cancelled) {
        const ert_state as = command.cancel_state.load();
        const int64_t ms = (command.stop_ns - command.start_ns) / 1000000;
        return command.finish(as, a.error + " after " + std::to_string(ms) + " ms" +
                                      (as == ert_state::timeout ? ", its time-out" : ", by abort"));
    }
    command.finish(ert_state::error, a.error);
}

void compute_unit::load_code() {
    if (entry_) return;
    copy_ = code_.copy();
    entry_ = &kernel_code::entry(*copy_, kernel_.name);
    counters_ = kernel_code::counters(*copy_, kernel_.name);
}

// A kernel without lanes has registers that the host may look at; one that restarts runs until the host has it stop.
void compute_unit::step_through(activity& a) {
    if (kernel_.lanes || kernel_.free_running) return run_once(a);
    registers_.begin_start(a.command.registers);
    do {
        registers_.begin_run(a.command.registers);
        a.step = 0;
        run_once(a);
    } while (!a.failed && registers_.end_run(a.command.registers));
}

void compute_unit::run_once(activity& a) {
    volatile uint32_t refused = 0;
    if (!a.run("in begin", [&] { refused = entry_->begin(&a.call); })) return;
    if (refused) {
        a.call.error[sizeof a.call.error - 1] = '\0';
        return a.fail(outcome::returned, refused, std::string("refused to start: ") + a.call.error);
    }
    step_clock clock(a.command, a.call.steps);
    run_steps(a, clock, team_.lanes() > 1);
    // A cancelled run may still tidy up; a second cancellation ends that too.
    const int tolerated = a.failed ? a.command.cancelled.load() : 0;
    a.run("in end", [&] { entry_->end(&a.call, a.status, a.step); }, tolerated);
    const char* volatile counted = nullptr;
    if (counters_ && !a.failed && a.run("in its counters", [&] { counted = counters_(); }))
        a.command.counters = counted;
}

void compute_unit::run_steps(activity& a, step_clock& clock, bool may_borrow) {
    const slice_task task{[](void* context, uint32_t slice) { static_cast<activity*>(context)->run_slice(slice); }, &a};
    for (; a.step < a.call.steps && !a.failed; ++a.step) {
        clock.start();
        volatile uint32_t wanted = 1;
        if (kernel_.lanes && !a.run("in slices", [&] { wanted = entry_->slices(&a.call, a.step); })) return;
        if (wanted == 0) {
            clock.skip();
            continue;
        }
        a.slices = team_.lanes() > 1 ? slices_for(team_.lanes(), wanted) : 1;
        if (a.slices > 1) {
            a.command.sliced.store(true, std::memory_order_relaxed);
            if (may_borrow && team_.run_with_borrowed(board_, [&] { run_steps(a, clock, false); })) return;
            may_borrow = false;
        }
        team_.run(board_, a.slices, task);
        clock.stop();
        if (a.failed) return;  // `step` stays at the one that failed
    }
}

void compute_unit::interrupt_running(ert_command& command, ert_state as) {
    command.cancel_state.store(as);
    command.cancelled.fetch_add(1, std::memory_order_seq_cst);
    interrupt(executor_);
    team_.interrupt();
}

void compute_unit::cancel_running(ert_command& command, ert_state as) {
    std::lock_guard lock(mutex_);
    if (current_ == &command) interrupt_running(command, as);
}

void compute_unit::cancel(ert_command& command, ert_state as) {
    std::shared_ptr<ert_command> waiting;
    {
        std::lock_guard lock(mutex_);
        if (current_ == &command) return interrupt_running(command, as);
        const auto mine = std::find_if(queue_.begin(), queue_.end(),
                                       [&](const auto& c) { return c.get() == &command; });
        if (mine == queue_.end()) {
            // On its way to this unit (perform will see it), or over by now (latching resets it).
            command.cancel_state.store(as);
            command.cancelled.fetch_add(1, std::memory_order_seq_cst);
            return;
        }
        waiting = std::move(*mine);
        queue_.erase(mine);
        load_.fetch_sub(1, std::memory_order_relaxed);
    }
    waiting->finish(as, "kernel '" + kernel_.name + "' had not been started: compute unit " + info_.name +
                            " was busy with earlier runs");
}

void compute_unit::cancel_all() {
    std::deque<std::shared_ptr<ert_command>> waiting;
    {
        std::lock_guard lock(mutex_);
        waiting.swap(queue_);
        load_.fetch_sub(waiting.size(), std::memory_order_relaxed);
        if (current_) interrupt_running(*current_, ert_state::abort);
    }
    for (const auto& command : waiting) command->finish(ert_state::abort, "the card was shut down");
}

void compute_unit::open(bool exclusive) {
    std::lock_guard lock(mutex_);
    if (exclusive_user_ || (exclusive && shared_users_))
        throw error("compute unit '" + info_.name + "' is in " + (exclusive_user_ ? "exclusive" : "shared") +
                    " use by another kernel object; release that one first or open both as shared");
    if (exclusive)
        exclusive_user_ = true;
    else
        ++shared_users_;
}

void compute_unit::close() {
    std::lock_guard lock(mutex_);
    if (exclusive_user_)
        exclusive_user_ = false;
    else
        --shared_users_;
}

}  // namespace card_model
