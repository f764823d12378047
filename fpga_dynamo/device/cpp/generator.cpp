#include "generator.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Utils.h>

#include <vector>

namespace fpga_device {

namespace {

class card_generator final : public c10::GeneratorImpl {
public:
    card_generator(c10::DeviceIndex index, at::Generator host)
        : GeneratorImpl(c10::Device(TYPE, index), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
          host_(std::move(host)) {}

    void set_current_seed(uint64_t seed) override { host_.set_current_seed(seed); }
    void set_offset(uint64_t offset) override { host_.set_offset(offset); }
    uint64_t get_offset() const override { return host_.get_offset(); }
    uint64_t current_seed() const override { return host_.current_seed(); }
    uint64_t seed() override { return host_.seed(); }
    void set_state(const c10::TensorImpl& state) override { host_.unsafeGetGeneratorImpl()->set_state(state); }
    c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
        return host_.unsafeGetGeneratorImpl()->get_state();
    }

    const at::Generator& host() const { return host_; }

private:
    c10::GeneratorImpl* clone_impl() const override { return new card_generator(device().index(), host_.clone()); }
    mutable at::Generator host_;
};

}  // namespace

const at::Generator& default_generator(c10::DeviceIndex index) {
    static const auto& all = *[] {
        auto* made = new std::vector<at::Generator>;
        for (c10::DeviceIndex i = 0; i < device_count(); ++i) made->push_back(new_generator(i));
        return made;
    }();
    return all[static_cast<size_t>(resolved(c10::Device(TYPE, index)).index())];
}

at::Generator new_generator(c10::DeviceIndex index) {
    return at::make_generator<card_generator>(resolved(c10::Device(TYPE, index)).index(),
                                              at::detail::createCPUGenerator());
}

at::Generator host_generator(const at::Generator& generator) {
    if (generator.device().type() != TYPE) return generator;
    return static_cast<card_generator*>(generator.unsafeGetGeneratorImpl())->host();
}

}  // namespace fpga_device
