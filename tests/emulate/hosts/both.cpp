// A host program that uses OpenCL and XRT's native API at once: both XCLBIN.
#include <xrt/xrt_bo.h>
#include <xrt/xrt_device.h>
#include <xrt/xrt_kernel.h>

#include "opencl.hpp"

int main(int, char** words) {
    xrt::device device(0);
    const auto uuid = device.load_xclbin(words[1]);
    xrt::kernel kernel(device, uuid, "fail");
    xrt::bo out(device, 4096, kernel.group_id(0));
    const auto state = kernel(out, 5).wait();
    out.sync(XCL_BO_SYNC_BO_FROM_DEVICE);
    std::printf("state %d, wrote %d\n", static_cast<int>(state), out.map<int*>()[0]);
    return add_by_opencl(words[1]);
}
