// The emulator as a card that is served: each session has one of its own.
#include "card.hpp"
#include "error.hpp"
#include "served_card.hpp"

namespace card_server {

namespace {

using card_model::buffer;
using card_model::buffer_flags;
using card_model::card;
using card_model::direction;
using card_model::ert_state;
using card_model::kernel;
using card_model::transfer;

class emulated_buffer : public served_buffer {
public:
    explicit emulated_buffer(buffer memory) : object(std::move(memory)) {}
    uint64_t address() override { return object.address(); }
    void put(const void* from, uint64_t bytes, uint64_t offset) override { object.upload(from, bytes, offset); }
    void fetch(void* to, uint64_t bytes, uint64_t offset) override { object.download(to, bytes, offset); }
    void copy(served_buffer& source, uint64_t bytes, uint64_t source_offset, uint64_t offset) override {
        if (bytes) object.copy(static_cast<emulated_buffer&>(source).object, bytes, source_offset, offset);
    }
    void populate() override { object.populate(); }
    void discard(uint64_t bytes, uint64_t offset) override { object.discard(bytes, offset); }

    const buffer object;
};

class emulated_run : public served_run {
public:
    explicit emulated_run(std::shared_ptr<kernel> opened) : run_(std::move(opened)) {}

    void set_buffer(uint32_t index, served_buffer& value) override {
        run_.set_buffer(index, static_cast<emulated_buffer&>(value).object);
    }
    void set_scalar(uint32_t index, const void* bytes, size_t count) override { run_.set_scalar(index, bytes, count); }
    void start() override { run_.start(); }
    ert_state wait(unsigned timeout_ms) override { return run_.wait(timeout_ms); }
    ert_state state() override { return run_.command().state(); }
    ert_state abort() override { return run_.abort(); }
    std::string error() override { return run_.command().busy() ? "" : run_.command().error(); }
    // An emulator tells itself of lists that did not come to their end.
    ert_state execute(served_buffer& memory, const std::vector<transfer>& inputs, const std::vector<transfer>& outputs,
                      unsigned timeout_ms, bool) override {
        return run_.execute_io(static_cast<emulated_buffer&>(memory).object, inputs, outputs, timeout_ms);
    }
    std::pair<int64_t, int64_t> times() override { return {run_.command().start_ns, run_.command().stop_ns}; }
    void trace_steps(bool wanted) override { run_.trace_steps(wanted); }
    std::vector<card_model::step_time> steps() override { return run_.steps(); }
    std::string counters() override { return run_.counters(); }

private:
    card_model::run run_;
};

class emulated_kernel : public served_kernel {
public:
    explicit emulated_kernel(std::shared_ptr<kernel> opened) : kernel_(std::move(opened)) {}
    uint32_t group_id(uint32_t argument) override { return kernel_->group_id(argument); }
    std::pair<std::string, uint64_t> scalar(uint32_t argument) override {
        const card_model::argument_info& wanted = kernel_->argument(argument);
        return {"argument " + std::to_string(argument) + " ('" + wanted.name + "') of kernel '" + kernel_->info().name +
                    "'",
                wanted.global || wanted.stream ? 0 : wanted.bytes};
    }
    std::unique_ptr<served_run> make_run() override { return std::make_unique<emulated_run>(kernel_); }

private:
    const std::shared_ptr<kernel> kernel_;
};

class emulated_card : public served_card {
public:
    explicit emulated_card(std::shared_ptr<card> opened) : card_(std::move(opened)) {}

    std::string load(const std::string& bytes, const std::string& name) override {
        const auto file = card_model::xclbin::from_bytes(bytes, name);
        card_->load(file);
        return card_model::to_string(file.id());
    }
    std::string uuid() override {
        const auto image = card_->try_loaded();
        return card_model::to_string(image ? image->file().id() : card_model::uuid{});
    }
    std::string info(const std::string& what) override {
        if (what == "bdf") return "emulated:" + std::to_string(card_->index());
        if (what == "offline") return "false";
        const auto image = card_->try_loaded();
        return image ? image->file().platform() : "fpga_dynamo emulator";
    }
    std::vector<served_bank> memory() override {
        card_->release_ended();
        std::vector<served_bank> result;
        const auto image = card_->loaded();
        for (const auto& bank : image->banks())
            if (bank) result.push_back({bank->tag(), bank->index(), bank->bytes(), bank->used(), bank->buffers()});
        return result;
    }
    std::shared_ptr<served_kernel> open_kernel(const std::string& id, const std::string& name) override {
        return std::make_shared<emulated_kernel>(
            std::make_shared<kernel>(card_, card_model::parse_uuid(id), name, card_model::access_mode::shared));
    }
    std::shared_ptr<served_buffer> allocate(uint64_t bytes, bool, uint32_t group) override {
        // The client keeps the host's copy.
        return std::make_shared<emulated_buffer>(buffer(card_, bytes, buffer_flags::device_only, group));
    }
    unsigned lanes() override { return card_->loaded()->lanes(); }

private:
    const std::shared_ptr<card> card_;
};

class emulator : public card_driver {
public:
    const char* name() const override { return "emulated"; }
    unsigned count() override { return card::count(); }
    bool has_contexts() const override { return true; }
    std::shared_ptr<served_card> open(unsigned index) override {
        card::open(index);  // throws for a card that is not there
        return std::make_shared<emulated_card>(card::beside(index));
    }
};

}  // namespace

std::unique_ptr<card_driver> emulated_driver() { return std::make_unique<emulator>(); }

}  // namespace card_server
