#include "kernel.hpp"

#include <algorithm>
#include <cstring>

#include "copies.hpp"
#include "error.hpp"
#include "process.hpp"

namespace card_model {

namespace {

bool fits_a_window(const transfer& t) {
    return t.bytes >= WINDOW_BYTES && t.bytes % WINDOW_BEAT == 0 && t.host % WINDOW_BEAT == 0;
}

// Whether the unit is wired to the bank of every buffer (null: not set), argument by argument.
bool reaches(const compute_unit& unit, const std::vector<std::shared_ptr<allocation>>& buffers) {
    for (size_t i = 0; i < buffers.size(); ++i) {
        const auto& banks = unit.info().banks[i];
        if (buffers[i] && std::find(banks.begin(), banks.end(), buffers[i]->owner()->index()) == banks.end())
            return false;
    }
    return true;
}

// Between tensors and the card's memory, those that are `shown` instead left out.
template <typename Shown>
void copy_all(const buffer& memory, direction way, const std::vector<transfer>& transfers, const Shown& shown,
              unsigned lanes) {
    const bool in = way == direction::to_device;
    uint64_t bytes = 0;
    for (const transfer& t : transfers)
        if (!shown(t)) bytes += t.bytes;
    std::vector<memory_copy> copies;
    for (const transfer& t : transfers) {
        if (shown(t)) continue;
        uint8_t* const host = reinterpret_cast<uint8_t*>(t.host);
        uint8_t* const card = memory.window(way, t.bytes, t.offset);
        if (bytes < SHARED_COPY_BYTES)
            std::memcpy(in ? card : host, in ? host : card, t.bytes);
        else
            copies.push_back({in ? card : host, in ? host : card, t.bytes});
    }
    if (!copies.empty()) copy_shared(copies, lanes);
}

// Ends a command for good: what survives the first cancellation (a kernel's `end`) gets more.
void cancel_until_ended(compute_unit& unit, ert_command& command, ert_state as) {
    constexpr unsigned PATIENCE_MS = 1000;
    do unit.cancel(command, as);
    while (!command.wait(PATIENCE_MS));
}

}  // namespace

kernel::kernel(std::shared_ptr<card> card, const uuid& id, const std::string& name, access_mode mode)
    : card_(std::move(card)), mode_(mode) {
    check_process();
    image_ = card_->loaded();
    if (image_->file().id() != id)
        throw error("card " + std::to_string(card_->index()) + " holds xclbin " + to_string(image_->file().id()) +
                    ", not " + to_string(id) + "; load that one first");
    const size_t colon = name.find(':');
    info_ = &image_->kernel(name.substr(0, colon));
    units_ = image_->compute_units(*info_);
    if (colon != std::string::npos) select_units(name.substr(colon + 1));
    if (mode_ == access_mode::none) return;
    size_t opened = 0;
    try {
        for (; opened < units_.size(); ++opened) units_[opened]->open(mode_ == access_mode::exclusive);
    } catch (const error&) {
        while (opened > 0) units_[--opened]->close();
        throw;
    }
}

kernel::~kernel() {
    if (mode_ == access_mode::none || forked()) return;
    for (compute_unit* unit : units_) unit->close();
}

void kernel::select_units(const std::string& list) {
    if (list.size() < 3 || list.front() != '{' || list.back() != '}')
        throw error("'" + info_->name + ":" + list + "' is not a kernel name; choose compute units as " + info_->name +
                    ":{" + units_.front()->name() + "}");
    std::vector<compute_unit*> chosen;
    for (size_t start = 1; start < list.size();) {
        const size_t end = std::min(list.find(',', start), list.size() - 1);
        const std::string name = list.substr(start, end - start);
        const auto unit = std::find_if(units_.begin(), units_.end(),
                                       [&](compute_unit* u) { return u->name() == name; });
        if (unit == units_.end()) throw error("kernel '" + info_->name + "' has no compute unit '" + name + "'");
        chosen.push_back(*unit);
        start = end + 1;
    }
    units_ = std::move(chosen);
}

const argument_info& kernel::argument(uint32_t index) const {
    if (index >= info_->arguments.size())
        throw error("kernel '" + info_->name + "' has " + std::to_string(info_->arguments.size()) +
                    " arguments; there is no argument " + std::to_string(index));
    return info_->arguments[index];
}

uint32_t kernel::group_id(uint32_t index) const {
    const argument_info& wanted = argument(index);
    if (!wanted.global)
        throw error("argument " + std::to_string(index) + " ('" + wanted.name + "') of kernel '" + info_->name +
                    "' is a scalar and lies in no memory group");
    return units_.front()->info().banks[index].front();
}

void kernel::check_startable() const {
    check_process();
    if (info_->free_running)
        throw error("kernel '" + info_->name +
                    "' has no control registers (ap_ctrl_none): it runs from the load of the xclbin on and cannot be "
                    "started");
    if (mode_ == access_mode::none)
        throw error("kernel '" + info_->name + "' was opened with access mode none, which does not allow runs");
    if (card_->try_loaded() != image_)
        throw error("card " + std::to_string(card_->index()) + " has been loaded with another xclbin since kernel '" +
                    info_->name + "' was opened; open it again");
}

run::run(std::shared_ptr<kernel> kernel)
    : kernel_(std::move(kernel)), command_(std::make_shared<ert_command>()), units_(kernel_->units()) {
    const auto& arguments = kernel_->info().arguments;
    size_t end = fpga::CU_ARGUMENTS;
    for (const argument_info& argument : arguments) end = std::max<size_t>(end, argument.offset + argument.bytes);
    registers_.resize(end);
    buffers_.resize(arguments.size());
    for (const argument_info& argument : arguments) set_.push_back(argument.stream || argument.output);
}

run::~run() {
    if (forked() || !command_->busy()) return;
    struct needs {
        std::shared_ptr<kernel> opened;
        std::vector<std::shared_ptr<allocation>> buffers;
    };
    const auto card = kernel_->owner();
    card->adopt(command_, std::make_shared<needs>(needs{std::move(kernel_), std::move(buffers_)}));
}

void run::set_buffer(uint32_t index, const buffer& value) {
    const argument_info& argument = kernel_->argument(index);
    const std::string title = "argument " + std::to_string(index) + " ('" + argument.name + "') of kernel '" +
                              kernel_->info().name + "'";
    if (!argument.global)
        throw error(title + (argument.stream ? " is a stream, which nothing is set to" : " is a scalar, not a buffer"));
    const bank* place = value.memory()->owner();
    const auto& banks = kernel_->program()->banks();
    if (place->index() >= banks.size() || banks[place->index()].get() != place)
        throw error(title + ": the buffer belongs to another card, or another xclbin has been loaded since");
    auto with_this = buffers_;
    with_this[index] = value.memory();
    std::vector<compute_unit*> wired;
    for (compute_unit* unit : kernel_->units())
        if (reaches(*unit, with_this)) wired.push_back(unit);
    if (wired.empty())
        throw error(title + " is wired to bank '" + place->tag() +
                    "', where the buffer lies, on no compute unit that "
                    "reaches the other buffers too; allocate it in group " +
                    std::to_string(kernel_->group_id(index)) + " (kernel.group_id(" + std::to_string(index) + "))");
    units_ = std::move(wired);
    buffers_ = std::move(with_this);
    const uint64_t address = value.address();
    std::memcpy(registers_.data() + argument.offset, &address, sizeof address);
    set_[index] = true;
}

void run::set_scalar(uint32_t index, const void* bytes, size_t count) {
    const argument_info& argument = kernel_->argument(index);
    if (argument.global || count != argument.bytes)
        throw error("argument " + std::to_string(index) + " ('" + argument.name + "') of kernel '" +
                    kernel_->info().name + "' " +
                    (argument.global   ? "takes a buffer"
                     : argument.stream ? "is a stream, which nothing is set to"
                                       : "takes a scalar of " + std::to_string(argument.bytes) + " bytes"));
    std::memcpy(registers_.data() + argument.offset, bytes, count);
    set_[index] = true;
}

void run::latch(std::vector<fpga::cu_window> windows) {
    kernel_->check_startable();
    if (command_->busy())
        throw error("this run of kernel '" + kernel_->info().name +
                    "' is under way already; wait for it, or make "
                    "another run object");
    for (size_t i = 0; i < set_.size(); ++i)
        if (!set_[i])
            throw error("argument " + std::to_string(i) + " ('" + kernel_->argument(static_cast<uint32_t>(i)).name +
                        "') of kernel '" + kernel_->info().name + "' has not been set");
    std::memcpy(command_->registers, registers_.data(), registers_.size());
    command_->windows = std::move(windows);
    command_->cancelled.store(0);
    command_->status.store(0);
    command_->counters.clear();
    command_->trace_steps = trace_steps_.load(std::memory_order_relaxed);
    command_->set_state(ert_state::queued);
    kernel_->owner()->counters().runs.fetch_add(1, std::memory_order_relaxed);
}

compute_unit& run::least_loaded() const {
    return **std::min_element(units_.begin(), units_.end(),
                              [](compute_unit* a, compute_unit* b) { return a->load() < b->load(); });
}

void run::announce() {
    if (forked()) return;  // the locks may be held by threads that this process does not have
    std::lock_guard lock(start_mutex_);
    if (unit_ && command_->sliced.load(std::memory_order_relaxed)) unit_->wake_lanes();
}

void run::start() {
    std::lock_guard lock(start_mutex_);
    latch({});
    unit_ = &least_loaded();
    unit_->enqueue(command_);
}

ert_state run::wait(unsigned timeout_ms) const {
    check_process();
    return command_->wait(timeout_ms) ? command_->state() : ert_state::timeout;
}

ert_state run::execute(unsigned timeout_ms) { return execute_with({}, timeout_ms); }

ert_state run::execute_with(std::vector<fpga::cu_window> windows, unsigned timeout_ms) {
    compute_unit* unit = nullptr;
    {
        std::lock_guard lock(start_mutex_);
        latch(std::move(windows));
        unit = unit_ = &least_loaded();
    }
    if (unit->execute(*command_, timeout_ms)) return command_->state();
    unit->enqueue(command_);
    if (command_->wait(timeout_ms)) return command_->state();
    cancel_until_ended(*unit, *command_, ert_state::timeout);
    return command_->state();
}

ert_state run::execute_io(const buffer& memory, const std::vector<transfer>& inputs,
                          const std::vector<transfer>& outputs, unsigned timeout_ms) {
    std::vector<fpga::cu_window> windows;
    const bool in_place = !windows_refused_.load(std::memory_order_relaxed);
    const auto shown = [&](const transfer& t) { return in_place && fits_a_window(t); };
    for (const std::vector<transfer>* all : {&inputs, &outputs})
        for (const transfer& t : *all) {
            memory.check_range(all == &inputs ? "an input" : "an output", t.bytes, t.offset);
            if (shown(t)) windows.push_back({memory.address() + t.offset, t.bytes, reinterpret_cast<void*>(t.host)});
        }
    const unsigned lanes = units_.front()->lanes();
    copy_all(memory, direction::to_device, inputs, shown, lanes);
    const bool any = !windows.empty();
    const ert_state state = execute_with(std::move(windows), timeout_ms);
    if (any && state == ert_state::error && command_->status == fpga::CU_WINDOWS_REFUSED) {
        windows_refused_.store(true, std::memory_order_relaxed);  // the same commands will be refused again
        return execute_io(memory, inputs, outputs, timeout_ms);
    }
    if (state == ert_state::completed) copy_all(memory, direction::from_device, outputs, shown, lanes);
    return state;
}

const std::vector<step_time>& run::steps() const {
    if (command_->busy())
        throw error("this run of kernel '" + kernel_->info().name +
                    "' is under way; its step times can be read when "
                    "it has ended");
    return command_->steps;
}

const std::string& run::counters() const {
    if (command_->busy())
        throw error("this run of kernel '" + kernel_->info().name +
                    "' is under way; its counters can be read when it "
                    "has ended");
    return command_->counters;
}

ert_state run::abort() {
    check_process();
    compute_unit* unit = nullptr;
    {
        std::lock_guard lock(start_mutex_);
        unit = unit_;
    }
    if (unit && command_->busy()) cancel_until_ended(*unit, *command_, ert_state::abort);
    return command_->state();
}

}  // namespace card_model
