// The emulator as a device.
#pragma once
#include <memory>

#include "device.hpp"

namespace fd {

// The emulator's card `index` with this xclbin beside all others. Throws card_model::error.
std::shared_ptr<device> open_emulated(const card_model::xclbin& file, unsigned index);

}  // namespace fd
