#include "model_card.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "cpu.hpp"
#include "error.hpp"
#include "faults.hpp"
#include "red_zone.hpp"

namespace xrt_model {

using card_model::ert_command;
using card_model::ert_state;
using card_model::PAGE;

namespace {

constexpr uint64_t RAM_BYTES = uint64_t{64} << 30;  // as emconfig.json says: four banks of 16 GiB
// While it loads another xclbin the driver maps this much of a buffer's file, and finds the buffer in it at its address.
constexpr uint64_t SINGLE_MAPPING_BYTES = uint64_t{2} << 30;
constexpr int64_t SHORT_RUN_NS = 20000;           // one that is over sooner costs the host no second question
constexpr uint32_t BUSY = 1, DONE = 6, IDLE = 4;  // of the control register

uint64_t pages(uint64_t bytes) { return (bytes + PAGE - 1) / PAGE * PAGE; }

std::string content(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    if (!file) throw std::runtime_error(path + " cannot be read");
    return text.str();
}

std::string attribute(const std::string& element, const std::string& name) {
    const std::string key = " " + name + "=\"";
    const size_t start = element.find(key);
    if (start == std::string::npos) return "";
    const size_t begin = start + key.size();
    return element.substr(begin, element.find('"', begin) - begin);
}

// What the XML says that XRT itself reads kernels and compute units from.
struct hardware {
    std::vector<card_model::kernel_info> kernels;
    std::vector<card_model::stream_info> streams;
};
hardware described_by(const std::string& xml) {
    hardware found;
    std::vector<card_model::kernel_info>& kernels = found.kernels;
    std::vector<card_model::stream_ends> ends;
    for (size_t at = xml.find('<'); at != std::string::npos; at = xml.find('<', at + 1)) {
        const std::string element = xml.substr(at + 1, xml.find('>', at) - at - 1);
        if (element.rfind("kernel ", 0) == 0) {
            kernels.emplace_back();
            kernels.back().name = attribute(element, "name");
            kernels.back().lanes = true;  // one without has a single slice
            kernels.back().free_running = attribute(element, "hwControlProtocol") == "ap_ctrl_none";
            kernels.back().has_mailbox = !attribute(element, "mailbox").empty();
            kernels.back().restarts = !attribute(element, "countedAutoRestart").empty();
            kernels.back().lanes = !(kernels.back().has_mailbox || kernels.back().restarts);
        } else if (element.rfind("arg ", 0) == 0 && !kernels.empty()) {
            const auto number = [&](const char* name) {
                return static_cast<uint32_t>(std::strtoul(attribute(element, name).c_str(), nullptr, 0));
            };
            kernels.back().arguments.push_back(
                {attribute(element, "name"), attribute(element, "addressQualifier") == "1",
                 attribute(element, "addressQualifier") == "4", number("offset"), number("size")});
        } else if (element.rfind("instance ", 0) == 0) {
            if (kernels.empty()) continue;
            const size_t arguments = kernels.back().arguments.size();
            kernels.back().compute_units.push_back(
                {attribute(element, "name"), 0, {}, std::vector<int>(arguments, -1)});
        } else if (element.rfind("addrRemap ", 0) == 0 && !kernels.empty() && !kernels.back().compute_units.empty()) {
            const uint64_t base = std::strtoull(attribute(element, "base").c_str(), nullptr, 0);
            kernels.back().compute_units.back().base = base;
        } else if (element.rfind("stream ", 0) == 0) {
            ends.push_back({attribute(element, "source"), attribute(element, "destination")});
            const auto depth = std::strtoul(attribute(element, "depth").c_str(), nullptr, 0);
            found.streams.push_back({ends.back()[0] + ":" + ends.back()[1], static_cast<uint32_t>(depth)});
        }
    }
    card_model::connect_streams(kernels, ends);
    return found;
}

unsigned lanes() {
    const char* text = std::getenv("FPGA_DYNAMO_LANES");
    const int wanted = text ? std::atoi(text) : 0;
    return wanted > 0 ? static_cast<unsigned>(wanted) : card_model::usable_cpus();
}

}  // namespace

memory::memory() {
    void* range = mmap(nullptr, 2 * RAM_BYTES + PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED)
        throw std::runtime_error(card_model::system_reason("no address space for the card's memory"));
    base_ = static_cast<uint8_t*>(range);
}

std::string memory::allocate(uint64_t address, uint64_t bytes, bool shared) {
    if (address > RAM_BYTES || pages(bytes) > RAM_BYTES - address)
        throw std::runtime_error("a buffer lies outside of the card's memory");
    const int file = memfd_create(BUFFER_FILE, MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, static_cast<off_t>(std::max(pages(bytes), SINGLE_MAPPING_BYTES))) != 0)
        throw std::runtime_error(card_model::system_reason("a buffer"));
    place(address, bytes, shared ? file : -1);
    std::unique_lock lock(mutex_);
    buffers_[address] = {bytes, file};
    return "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(file);
}

void memory::place(uint64_t address, uint64_t bytes, int file) const {
    const int kind = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    if (mmap(host(address), pages(bytes), PROT_READ | PROT_WRITE, kind | MAP_FIXED | MAP_NORESERVE, file, 0) ==
        MAP_FAILED)
        throw std::runtime_error(card_model::system_reason("a buffer"));
}

void memory::import(uint64_t address, const std::string& path) {
    card_model::buffer_extent buffer;
    if (!find(address, &buffer)) throw std::runtime_error("an imported buffer was not allocated");
    const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (file < 0) throw std::runtime_error(card_model::system_reason("an imported buffer"));
    place(buffer.address, buffer.bytes, file);
    close(file);
}

void memory::release(uint64_t address) {
    std::unique_lock lock(mutex_);
    const auto found = buffers_.find(address);
    if (found == buffers_.end()) return;
    (void)mmap(host(address), pages(found->second.bytes), PROT_NONE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    // The driver may hold a descriptor of this file forever: at least its pages are given back. The file keeps its size, for
    // the driver still writes to the mappings of commands that it has freed when it loads another xclbin.
    static_cast<void>(fallocate(found->second.file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                                static_cast<off_t>(pages(found->second.bytes))));
    close(found->second.file);
    buffers_.erase(found);
}

bool memory::find(uint64_t address, card_model::buffer_extent* found) const {
    std::shared_lock lock(mutex_);
    auto buffer = buffers_.upper_bound(address);
    if (buffer == buffers_.begin()) return false;
    --buffer;
    if (address - buffer->first >= buffer->second.bytes) return false;
    *found = extent(*buffer);
    return true;
}

bool memory::find_near(const void* host, card_model::buffer_extent* found) const {
    std::shared_lock lock(mutex_);
    uint64_t least = PAGE;
    for (const auto& buffer : buffers_)
        if (const uint64_t away = distance(host, extent(buffer)); away < least) least = away, *found = extent(buffer);
    return least < PAGE;
}

void* memory::translate(uint64_t address, uint64_t* bytes) const {
    card_model::buffer_extent buffer;
    if (!find(address, &buffer)) return nullptr;
    const uint64_t within = address - buffer.address;
    *bytes = buffer.bytes - within;
    return buffer.host + within;
}

uint8_t* memory::range(uint64_t address, uint64_t bytes) const {
    uint64_t there = 0;
    void* place = translate(address, &there);
    if (!place || there < bytes) throw std::runtime_error("a copy lies outside of any buffer");
    return static_cast<uint8_t*>(place);
}

std::string memory::describe(const void* host) const {
    card_model::buffer_extent near;
    if (!find_near(host, &near)) return "";
    const auto within = static_cast<uint64_t>(static_cast<const uint8_t*>(host) - near.host);
    return "card address " + card_model::hex(near.address + within);
}

void register_unit::write(uint32_t offset, const void* data, size_t bytes) {
    if (offset + bytes > registers_.size()) return;
    std::memcpy(registers_.data() + offset, data, bytes);
    if (unit_.has_live_registers())
        for (uint32_t at = std::max(offset, fpga::CU_ARGUMENTS); at + 4 <= offset + bytes; at += 4) {
            uint32_t value = 0;
            std::memcpy(&value, registers_.data() + at, sizeof value);
            if (at < fpga::CU_REGISTER_BYTES) unit_.write_register(at, value);
        }
    if (offset == 0 && bytes >= 4 && (registers_[0] & BUSY)) start();
}

uint32_t register_unit::read(uint32_t offset) {
    if (offset != 0) {
        if (unit_.has_live_registers() && offset % 4 == 0 && offset < fpga::CU_REGISTER_BYTES)
            return unit_.read_register(offset);
        uint32_t value = 0;
        if (offset + sizeof value <= registers_.size()) std::memcpy(&value, registers_.data() + offset, sizeof value);
        return value;
    }
    std::lock_guard lock(mutex_);
    if (!over_.load(std::memory_order_acquire)) return BUSY;
    return std::exchange(told_, true) ? IDLE : DONE;
}

void register_unit::start() {
    auto command = std::make_shared<ert_command>();
    std::memcpy(command->registers + fpga::CU_ARGUMENTS, registers_.data() + fpga::CU_ARGUMENTS,
                fpga::CU_REGISTER_BYTES - fpga::CU_ARGUMENTS);
    uint32_t run = 0;
    std::memcpy(&run, registers_.data() + RUN_NUMBER_REGISTER, sizeof run);
    registers_[0] = 0;
    command->add_callback([this, run, one = command.get()](ert_state state) {
        note(run, *one, state);
        std::memcpy(registers_.data() + fpga::CU_ARGUMENTS, one->registers + fpga::CU_ARGUMENTS,
                    fpga::CU_REGISTER_BYTES - fpga::CU_ARGUMENTS);  // with the kernel's results
        over_.store(true, std::memory_order_release);
    });
    over_.store(false);
    {
        std::lock_guard lock(mutex_);
        command_ = command;
        run_ = run;
        told_ = false;
        unit_.enqueue(command);
    }
    const int64_t stop = card_model::monotonic_ns() + SHORT_RUN_NS;
    while (!over_.load(std::memory_order_acquire) && card_model::monotonic_ns() < stop) card_model::cpu_relax();
}

void register_unit::note(uint32_t run, const ert_command& command, ert_state state) {
    if (!status_ || state == ert_state::completed) return;
    failure& entry = status_->failures[run % status_page::FAILURES];
    entry.state = static_cast<uint32_t>(state);
    std::strncpy(entry.sentence, command.error().c_str(), sizeof entry.sentence - 1);
    entry.run.store(run, std::memory_order_release);
}

void register_unit::cancel(uint32_t run) {
    std::shared_ptr<ert_command> command;
    {
        std::lock_guard lock(mutex_);
        if (run_ != run || !command_ || !command_->busy()) return;
        command = command_;
    }
    unit_.cancel(*command, ert_state::abort);
}

struct model_card::program {
    const std::string object;
    card_model::kernel_code code;
    const hardware described;
    const std::vector<card_model::kernel_info>& kernels = described.kernels;
    card_model::lane_team team;
    card_model::stream_network streams;
    std::vector<std::unique_ptr<card_model::compute_unit>> units;
    std::map<uint64_t, std::unique_ptr<register_unit>> by_address;

    static size_t count(const std::vector<card_model::kernel_info>& all) {
        size_t units = 0;
        for (const auto& kernel : all) units += kernel.compute_units.size();
        return units;
    }

    program(const std::string& xml, std::string content, const memory& ram, status_page* status)
        : object(std::move(content)),
          code(object),
          described(described_by(xml)),
          team(lanes(), count(kernels)),
          streams(described.streams) {
        for (const auto& kernel : kernels) {
            for (const auto& info : kernel.compute_units) {
                auto ends = kernel.has_streams() ? streams.ends(info.streams) : std::vector<fpga::cu_stream>();
                units.push_back(std::make_unique<card_model::compute_unit>(kernel, info, code, team, units.size(), ram,
                                                                           std::move(ends)));
                if (!kernel.free_running)
                    by_address[info.base] = std::make_unique<register_unit>(*units.back(), status);
            }
        }
        for (const auto& unit : units)
            if (unit->free_running()) unit->run_for_ever();
    }
};

model_card::model_card(status_page* status) : status_(status) {}
model_card::~model_card() = default;

void model_card::load(const std::string& xml, const std::string& object) {
    card_model::install_handlers();
    auto fresh = std::make_unique<program>(content(xml), content(object), memory_, status_);
    std::lock_guard lock(mutex_);
    programs_.push_back(std::move(fresh));
}

register_unit* model_card::at(uint64_t address, uint32_t* offset) {
    std::lock_guard lock(mutex_);
    if (programs_.empty()) return nullptr;
    const auto& units = programs_.back()->by_address;
    auto found = units.upper_bound(address);
    if (found == units.begin()) return nullptr;
    --found;
    if (address - found->first >= register_unit::BYTES) return nullptr;
    *offset = static_cast<uint32_t>(address - found->first);
    return found->second.get();
}

void model_card::cancel(uint32_t run) {
    std::lock_guard lock(mutex_);
    if (programs_.empty()) return;
    for (const auto& [address, unit] : programs_.back()->by_address) unit->cancel(run);
}

}  // namespace xrt_model
