// A host program that reads results in registers: registers XCLBIN ACTION.
#include <xrt/experimental/xrt_mailbox.h>
#include <xrt/xrt_device.h>
#include <xrt/xrt_kernel.h>

#include <iostream>
#include <string>

namespace {

// `totals`: a kernel that ends.
int read(xrt::device& device, const xrt::uuid& uuid) {
    xrt::kernel kernel(device, uuid, "totals", xrt::kernel::cu_access_mode::exclusive);
    xrt::bo numbers(device, 64 * sizeof(int), kernel.group_id(0));
    for (int i = 0; i < 64; i++) numbers.map<int*>()[i] = i - 60;
    numbers.sync(XCL_BO_SYNC_BO_TO_DEVICE);
    for (const int count : {64, 61}) {
        std::cout << "state " << kernel(numbers, count).wait();
        std::cout << " sum " << static_cast<int>(kernel.read_register(0x24)) << " largest "
                  << static_cast<int>(kernel.read_register(0x2c)) << std::endl;
    }
    return 0;
}

// `again`: a kernel that restarts by itself, and is given other arguments while it runs.
int exchange(xrt::device& device, const xrt::uuid& uuid, unsigned runs) {
    xrt::kernel kernel(device, uuid, "again");
    xrt::run run = kernel(xrt::autostart{runs}, 3, 4);
    xrt::mailbox mailbox(run);
    for (int a = 3; a < 200 && !runs; a++) {
        mailbox.set_arg(0, a);
        mailbox.set_arg(1, 2 * a);
        mailbox.write();
        mailbox.read();
        const int sum = *static_cast<const int*>(mailbox.get_arg(2).first);
        const int product = *static_cast<const int*>(mailbox.get_arg(3).first);
        if (sum != 3 * a || product != 2 * a * a) return std::cout << a << ": " << sum << ", " << product << std::endl, 1;
    }
    if (runs) run.wait();
    else run.stop();
    std::cout << "state " << run.state() << " runs ";
    mailbox.read();
    const int count = *static_cast<const int*>(mailbox.get_arg(4).first);
    std::cout << (runs ? std::to_string(count) : count > 200 ? "many" : "few") << std::endl;
    return 0;
}

}  // namespace

int main(int, char** words) {
    xrt::device device(0);
    const auto uuid = device.load_xclbin(words[1]);
    const std::string action = words[2];
    if (action == "read") return read(device, uuid);
    return exchange(device, uuid, action == "count" ? 17 : 0);
}
