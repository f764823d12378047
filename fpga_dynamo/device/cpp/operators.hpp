// Operators that run on the card as programs of one node. A program is for one kind of call: an operator with the dtypes,
// sizes and strides of its tensors and with its other arguments. It is compiled when that kind of call comes often enough.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "device.hpp"

namespace fpga_device {

// A result of a program; `exists` is false for one that the call does not ask for.
struct result_kind {
    bool exists = false;
    std::vector<int64_t> sizes, strides;
    at::ScalarType dtype = at::ScalarType::Undefined;
};

class card_program {
public:
    virtual ~card_program() = default;
    // Both are tensors of the CPU over a card's memory.
    virtual void run(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& results) const = 0;
};

struct compiled {
    std::shared_ptr<card_program> program;  // none: the host runs such calls, for `reason`
    std::vector<result_kind> results;
    std::string reason;
};

// Calls of it may wait for Python's interpreter lock.
class operator_compiler {
public:
    virtual ~operator_compiler() = default;
    // Why no call of the operator can run on the card; empty if some may.
    virtual std::string refusal(const c10::OperatorHandle& op) = 0;
    // `arguments`: those of the schema. Numbers that came as tensors of the CPU are numbers here.
    virtual compiled compile(const c10::OperatorHandle& op, const std::vector<c10::IValue>& arguments,
                             c10::DeviceIndex index) = 0;
};

// `sightings`: the how-manieth call of one kind is compiled; 0: the host runs all operators. `measured`: the host goes on
// with a kind of call that the card is then found to be slower at. Forgets what was compiled.
void compile_operators_by(std::shared_ptr<operator_compiler> compiler, int64_t sightings, bool measured);

// How long the host takes for a call, which the card has to beat: from `begin` to the end of this object.
class host_timing {
public:
    host_timing() = default;
    ~host_timing();
    host_timing(const host_timing&) = delete;
    host_timing& operator=(const host_timing&) = delete;
    void begin(std::vector<int64_t> words);

private:
    std::vector<int64_t> words_;  // that stand for the kind of the call
    std::chrono::steady_clock::time_point began_;
};

// Runs a call on the card, and returns whether it has; if not, the stack is as it was, and the caller runs it on the host.
bool run_on_card(const c10::OperatorHandle& op, torch::jit::Stack& stack, host_timing& timing);

// Calls since the last `reset_operator_counts`, by operator and by the reason why they ran on the host; on the card: "".
using operator_counts = std::map<std::string, std::map<std::string, int64_t>>;
operator_counts count_operators();
void reset_operator_counts();
// How many programs and kinds of calls there are.
std::pair<size_t, size_t> operator_cache_sizes();

}  // namespace fpga_device
