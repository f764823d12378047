// A card that AMD's XRT drives, by XRT's C++ API.
#pragma once
#include <memory>
#include <string>

#include "device.hpp"

namespace fd {

// Loads the xclbin on the card `index`. Throws std::exception with XRT's reason.
std::shared_ptr<device> open_xrt(const std::string& path, unsigned index);

}  // namespace fd
