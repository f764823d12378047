#include "device.hpp"

#include <cstdlib>

#include "emulated_device.hpp"
#include "model_error.hpp"
#include "xclbin.hpp"
#ifdef FD_WITH_XRT
#include "xrt_device.hpp"
#endif

namespace fd {

card_model::xclbin check_xclbin(const std::string& path, const std::string& uuid) {
    auto file = card_model::xclbin::from_file(path);
    const std::string found = card_model::to_string(file.id());
    if (found != uuid)
        throw invalid_model("'" + path + "' is another xclbin (" + found +
                            ") than the one that the model was exported "
                            "for (" +
                            uuid + "); export the model again");
    return file;
}

std::shared_ptr<device> open_device(const std::string& path, const std::string& uuid, unsigned index) {
    const auto file = check_xclbin(path, uuid);
#ifdef FD_WITH_XRT
    const char* driver = std::getenv("FPGA_DYNAMO_DRIVER");  // XRT has the emulator behind it as well
    if (!file.emulated() || (driver && std::string(driver) == "xrt")) return open_xrt(path, index);
#endif
    if (file.emulated()) return open_emulated(file, index);
    throw invalid_model("'" + path + "' is for a card (target " + file.target() +
                        "), and this library was built for the emulator alone; build it with -DFD_XRT=ON");
}

}  // namespace fd
