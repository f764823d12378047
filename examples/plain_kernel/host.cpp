// Runs vadd.cpp with XRT's native API: host vadd.xclbin. It knows nothing of fpga_dynamo.
#include <xrt/xrt_bo.h>
#include <xrt/xrt_device.h>
#include <xrt/xrt_kernel.h>

#include <iostream>

int main(int, char** words) {
    constexpr int COUNT = 4096;
    xrt::device device(0);
    const auto uuid = device.load_xclbin(words[1]);
    xrt::kernel kernel(device, uuid, "vadd");
    xrt::bo a(device, COUNT * sizeof(float), kernel.group_id(0)), b(device, COUNT * sizeof(float), kernel.group_id(1));
    xrt::bo out(device, COUNT * sizeof(float), kernel.group_id(2));
    for (int i = 0; i < COUNT; i++) a.map<float*>()[i] = 1.0f * i, b.map<float*>()[i] = 2.0f * i;
    a.sync(XCL_BO_SYNC_BO_TO_DEVICE);
    b.sync(XCL_BO_SYNC_BO_TO_DEVICE);

    xrt::run run = kernel(a, b, out, COUNT);
    if (run.wait() != ERT_CMD_STATE_COMPLETED) return 1;
    out.sync(XCL_BO_SYNC_BO_FROM_DEVICE);
    int wrong = 0;
    for (int i = 0; i < COUNT; i++) wrong += out.map<float*>()[i] != 3.0f * i;
    std::cout << COUNT << " sums, " << wrong << " of them wrong\n";
    return wrong ? 1 : 0;
}
