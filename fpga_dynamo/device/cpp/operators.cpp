#include "operators.hpp"

#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <atomic>
#include <iomanip>
#include <list>
#include <mutex>
#include <sstream>
#include <unordered_map>

#include "call_kind.hpp"
#include "tensors.hpp"

namespace fpga_device {

namespace {

using clock = std::chrono::steady_clock;

constexpr size_t MOST_KINDS = 1024;  // the least recently used one is forgotten
constexpr int TRIALS = 5;            // launches after which the card has to be faster than the host was
constexpr clock::duration NEVER = clock::duration::max();

// An operator, whatever its arguments are.
struct known_operator {
    std::string name, refusal;
    bool asked = false;                      // for the refusal
    int64_t on_card = 0, refused = 0;        // calls
    std::map<std::string, int64_t> on_host;  // by reason; those of kinds in the table are counted there
};

struct kind {
    const call_words* words;  // its key in the table
    known_operator* op;
    int64_t seen = 0;
    bool compiling = false;
    std::shared_ptr<const compiled> how;   // once it is decided
    clock::duration host = NEVER, card{};  // of the fastest call; of all on trial
    int trials = 0;
    int64_t early = 0, on_card = 0, on_host = 0, overlapping = 0;
};

struct state_of_all {
    std::mutex mutex;
    std::shared_ptr<operator_compiler> compiler;
    int64_t sightings = 0;
    bool measured = false;
    std::unordered_map<const c10::FunctionSchema*, known_operator> operators;
    std::list<kind> kinds;  // the one used last is first
    std::unordered_map<call_words, std::list<kind>::iterator, hash_of_words> table;
};

// Never destroyed, as operators may be called as long as the process.
state_of_all& all() {
    static auto& only = *new state_of_all;
    return only;
}

std::atomic<bool> enabled{false};

std::string early_reason(int64_t sightings) {
    return "such a call has come fewer than " + std::to_string(sightings) + " times";
}

const char* const OVERLAP = "the result lies in the memory of an argument";

void count_in(known_operator& op, const kind& gone, int64_t sightings) {
    op.on_card += gone.on_card;
    if (gone.early) op.on_host[early_reason(sightings)] += gone.early;
    if (gone.on_host) op.on_host[gone.how->reason] += gone.on_host;
    if (gone.overlapping) op.on_host[OVERLAP] += gone.overlapping;
}

known_operator& operator_of(state_of_all& state, const c10::OperatorHandle& op) {
    known_operator& found = state.operators[&op.schema()];
    if (found.name.empty()) found.name = c10::toString(op.operator_name());
    return found;
}

// The kind of a call, which is now the one used last.
// `dropped` gets what is forgotten for it: it may wait for the interpreter, which it must not do under the lock.
kind& kind_of(state_of_all& state, const call_words& words, known_operator& op,
              std::shared_ptr<const compiled>& dropped) {
    const auto found = state.table.find(words);
    if (found != state.table.end()) {
        state.kinds.splice(state.kinds.begin(), state.kinds, found->second);
        return state.kinds.front();
    }
    if (state.kinds.size() >= MOST_KINDS) {
        const kind& gone = state.kinds.back();
        count_in(*gone.op, gone, state.sightings);
        dropped = gone.how;
        state.table.erase(state.table.find(*gone.words));
        state.kinds.pop_back();
    }
    state.kinds.push_front(kind{});
    const auto placed = state.table.emplace(words, state.kinds.begin()).first;
    state.kinds.front().words = &placed->first;
    state.kinds.front().op = &op;
    return state.kinds.front();
}

// Arguments that results are written to stand last, and only in "out" variants.
size_t written_arguments(const c10::FunctionSchema& schema) {
    size_t count = 0;
    for (const c10::Argument& argument : schema.arguments()) count += argument.is_out();
    return count;
}

bool share_memory(const at::Tensor& a, const at::Tensor& b) { return a.storage().data() == b.storage().data(); }

class launch {
public:
    launch(const c10::OperatorHandle& op, torch::jit::Stack& stack, const call_tensors& tensors, c10::Device device)
        : stack_(stack),
          arguments_(op.schema().arguments().size()),
          written_(written_arguments(op.schema())),
          inputs_(tensors.begin(), tensors.end() - static_cast<std::ptrdiff_t>(written_)),
          device_(device) {
        for (size_t i = 0; i < written_; ++i)
            outputs_.push_back(**(tensors.end() - static_cast<std::ptrdiff_t>(written_ - i)));
    }

    bool overlaps() const {
        for (const at::Tensor& output : outputs_)
            for (const at::Tensor* input : inputs_)
                if (share_memory(output, *input)) return true;
        return false;
    }

    void run(const compiled& how) {
        std::vector<at::Tensor> inputs, results;
        inputs.reserve(inputs_.size());
        for (const at::Tensor* input : inputs_) inputs.push_back(host_view(*input));
        size_t given = 0;
        for (const result_kind& kind : how.results) {
            if (written_) {
                const at::Tensor& output = outputs_[given++];
                if (output.sizes() != kind.sizes) resize_memory(output, kind.sizes, kind.strides);
            } else {
                outputs_.push_back(kind.exists ? empty_strided(kind.sizes, kind.strides, kind.dtype, device_)
                                               : at::Tensor());
            }
            if (kind.exists) results.push_back(host_view(outputs_.back()));
        }
        if (written_) {
            results.clear();
            for (const at::Tensor& output : outputs_) results.push_back(host_view(output));
        }
        {
            // The program's tensors are plain ones of the CPU, whatever autograd or autocast this call is in.
            const c10::impl::ForceDispatchKeyGuard plain(
                c10::impl::LocalDispatchKeySet(c10::impl::PODLocalDispatchKeySet{}));
            how.program->run(inputs, results);
        }
        torch::jit::drop(stack_, arguments_);
        for (at::Tensor& output : outputs_) stack_.emplace_back(std::move(output));
    }

private:
    torch::jit::Stack& stack_;
    const size_t arguments_, written_;
    const call_tensors inputs_;
    std::vector<at::Tensor> outputs_;
    const c10::Device device_;
};

std::vector<c10::IValue> with_numbers(const c10::IValue* begin, const c10::IValue* end) {
    std::vector<c10::IValue> arguments(begin, end);
    for (c10::IValue& value : arguments)
        if (value.isTensor() && value.toTensor().defined() && is_number(value.toTensor()))
            value = number_of(value.toTensor());
    return arguments;
}

double microseconds(clock::duration time) { return std::chrono::duration<double, std::micro>(time).count(); }

// Takes note of a launch of a kind that is on trial, and ends its program if the host was faster.
void judge(state_of_all& state, const call_words& words, clock::duration took) {
    std::shared_ptr<const compiled> dropped;  // after the lock is given back
    const std::lock_guard lock(state.mutex);
    const auto found = state.table.find(words);
    if (found == state.table.end() || !found->second->how || !found->second->how->program) return;
    kind& judged = *found->second;
    if (judged.trials++ > 0) judged.card += took;  // the first launch is not a direct one yet
    if (judged.trials < TRIALS || judged.host == NEVER || judged.card <= judged.host * (TRIALS - 1)) return;
    std::ostringstream why;
    why << std::fixed << std::setprecision(1) << "the host was faster: " << microseconds(judged.host) << " us against "
        << microseconds(judged.card / (TRIALS - 1)) << " us";
    dropped = std::exchange(judged.how, std::make_shared<const compiled>(compiled{nullptr, {}, why.str()}));
}

// Whether calls of the operator may run on the card at all; asks the compiler once.
bool is_possible(state_of_all& state, const c10::OperatorHandle& op, known_operator& known,
                 std::unique_lock<std::mutex>& lock) {
    if (!known.asked) {
        const auto compiler = state.compiler;
        lock.unlock();
        std::string refusal = compiler->refusal(op);
        lock.lock();
        known.refusal = std::move(refusal);
        known.asked = true;
    }
    if (!known.refusal.empty()) ++known.refused;
    return known.refusal.empty();
}

}  // namespace

void host_timing::begin(call_words words) {
    words_ = std::move(words);
    began_ = clock::now();
}

host_timing::~host_timing() {
    if (words_.empty()) return;
    const clock::duration took = clock::now() - began_;
    state_of_all& state = all();
    const std::lock_guard lock(state.mutex);
    if (const auto found = state.table.find(words_); found != state.table.end())
        found->second->host = std::min(found->second->host, took);
}

void compile_operators_by(std::shared_ptr<operator_compiler> compiler, int64_t sightings, bool measured) {
    state_of_all& state = all();
    std::list<kind> dropped;  // their programs go without the lock
    {
        const std::lock_guard lock(state.mutex);
        for (const kind& each : state.kinds) count_in(*each.op, each, state.sightings);
        state.table.clear();
        state.kinds.swap(dropped);
        for (auto& [schema, op] : state.operators) {
            if (op.refused) op.on_host[op.refusal] += std::exchange(op.refused, 0);
            op.asked = false;
        }
        state.compiler = std::move(compiler);
        state.sightings = sightings;
        state.measured = measured;
        enabled = state.compiler && sightings > 0;
    }
}

bool run_on_card(const c10::OperatorHandle& op, torch::jit::Stack& stack, host_timing& timing) {
    if (!enabled.load(std::memory_order_relaxed)) return false;
    state_of_all& state = all();
    static thread_local call_words words;
    call_tensors tensors;
    const size_t count = op.schema().arguments().size();
    c10::Device device(TYPE, 0);
    std::shared_ptr<const compiled> dropped;  // after the lock is given back
    std::unique_lock lock(state.mutex);
    known_operator& known = operator_of(state, op);
    if (!is_possible(state, op, known, lock)) return false;
    words.assign(1, reinterpret_cast<int64_t>(&op.schema()));
    const c10::IValue *end = stack.data() + stack.size(), *begin = end - count;
    if (const char* why = describe_call(begin, end, words, tensors, device)) {
        ++known.on_host[why];
        return false;
    }
    kind* found = &kind_of(state, words, known, dropped);
    if (!found->how) {
        if (++found->seen < state.sightings || found->compiling) {
            ++found->early;
            const bool measured = state.measured;
            lock.unlock();
            if (measured) timing.begin(words);
            return false;
        }
        found->compiling = true;
        const auto compiler = state.compiler;
        const call_words key = words;
        lock.unlock();
        std::shared_ptr<const compiled> how;
        try {
            how = std::make_shared<const compiled>(compiler->compile(op, with_numbers(begin, end), device.index()));
        } catch (...) {
            lock.lock();
            if (const auto again = state.table.find(key); again != state.table.end()) again->second->compiling = false;
            throw;
        }
        lock.lock();
        found = &kind_of(state, key, known, dropped);  // others may have had it forgotten
        found->how = std::move(how);
        found->compiling = false;
    }
    if (!found->how->program) {
        ++found->on_host;
        return false;
    }
    launch call(op, stack, tensors, device);
    if (call.overlaps()) {
        ++found->overlapping;
        return false;
    }
    ++found->on_card;
    const auto how = found->how;
    const bool on_trial = state.measured && found->trials < TRIALS;
    lock.unlock();
    if (!on_trial) {
        call.run(*how);
        return true;
    }
    const call_words key = words;  // the launch may call other operators
    const auto began = clock::now();
    call.run(*how);
    judge(state, key, clock::now() - began);
    return true;
}

operator_counts count_operators() {
    state_of_all& state = all();
    const std::lock_guard lock(state.mutex);
    std::map<std::string, known_operator> sums;
    for (const auto& [schema, op] : state.operators) sums.emplace(op.name, op);
    for (const kind& each : state.kinds) count_in(sums.at(each.op->name), each, state.sightings);
    operator_counts counts;
    for (const auto& [name, op] : sums) {
        auto& of_operator = counts[name];
        if (op.on_card) of_operator[""] += op.on_card;
        if (op.refused) of_operator[op.refusal] += op.refused;
        for (const auto& [why, number] : op.on_host) of_operator[why] += number;
        if (of_operator.empty()) counts.erase(name);
    }
    return counts;
}

void reset_operator_counts() {
    state_of_all& state = all();
    const std::lock_guard lock(state.mutex);
    for (kind& each : state.kinds) each.early = each.on_card = each.on_host = each.overlapping = 0;
    for (auto& [schema, op] : state.operators) {
        op.on_card = op.refused = 0;
        op.on_host.clear();
    }
}

std::pair<size_t, size_t> operator_cache_sizes() {
    state_of_all& state = all();
    const std::lock_guard lock(state.mutex);
    size_t programs = 0;
    for (const kind& each : state.kinds) programs += each.how && each.how->program;
    return {programs, state.kinds.size()};
}

}  // namespace fpga_device
