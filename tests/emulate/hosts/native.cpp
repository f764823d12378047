// A host program of XRT's native C++ API: native XCLBIN ACTION [N].
#include <unistd.h>
#include <xrt/xrt_bo.h>
#include <xrt/xrt_device.h>
#include <xrt/xrt_kernel.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

namespace {

constexpr int COUNT = 1024;
constexpr size_t BYTES = COUNT * sizeof(int);

struct card {
    xrt::device device;
    xrt::uuid uuid;
    card(unsigned index, const std::string& file) : device(index), uuid(device.load_xclbin(file)) {}
};

int add(card& on, xrt::bo::flags kind) {
    xrt::kernel kernel(on.device, on.uuid, "add");
    xrt::bo a(on.device, BYTES, kind, kernel.group_id(0)), b(on.device, BYTES, kind, kernel.group_id(1));
    xrt::bo out(on.device, BYTES, kind, kernel.group_id(2));
    auto *x = a.map<int*>(), *y = b.map<int*>(), *sum = out.map<int*>();
    for (int i = 0; i < COUNT; i++) x[i] = i, y[i] = 3 * i;
    const bool copies = kind == xrt::bo::flags::normal;
    if (copies) a.sync(XCL_BO_SYNC_BO_TO_DEVICE), b.sync(XCL_BO_SYNC_BO_TO_DEVICE);
    const auto state = kernel(a, b, out, COUNT).wait();
    if (copies) out.sync(XCL_BO_SYNC_BO_FROM_DEVICE);
    for (int i = 0; i < COUNT; i++)
        if (sum[i] != 4 * i) return 1;
    std::cout << "state " << state << ", sums right" << std::endl;
    return 0;
}

int fail(card& on, int how) {
    xrt::kernel kernel(on.device, on.uuid, "fail");
    xrt::bo out(on.device, BYTES, kernel.group_id(0));
    xrt::run run = kernel(out, how);
    if (how == 4) {
        const auto begin = std::chrono::steady_clock::now();
        const auto state = run.wait(std::chrono::milliseconds(200));
        const auto waited = std::chrono::steady_clock::now() - begin;
        std::cout << "wait " << state << (waited < std::chrono::seconds(20) ? " in time" : " late") << std::endl;
        std::cout << "abort " << run.abort() << std::endl;
        return 0;
    }
    std::cout << "wait " << run.wait() << std::endl;
    std::cout << "state " << run.state() << std::endl;
    std::cout << "again " << kernel(out, 0).wait() << std::endl;
    return 0;
}

// A buffer of one card, filled through a handle of another.
int share(card& from, card& to) {
    xrt::kernel kernel(from.device, from.uuid, "add");
    xrt::bo own(from.device, BYTES, xrt::bo::flags::p2p, kernel.group_id(0));
    xrt::bo other(to.device, own.export_buffer());
    std::vector<int> data(COUNT, 7);
    xrt::bo source(to.device, BYTES, xrt::kernel(to.device, to.uuid, "add").group_id(0));
    source.write(data.data());
    source.sync(XCL_BO_SYNC_BO_TO_DEVICE);
    other.copy(source, BYTES);
    own.sync(XCL_BO_SYNC_BO_FROM_DEVICE);
    std::cout << "shared " << own.map<int*>()[COUNT - 1] << std::endl;
    return 0;
}

// Through memory that only the card has.
int copy(card& on) {
    constexpr size_t LARGE = size_t{32} << 20;
    const auto group = xrt::kernel(on.device, on.uuid, "add").group_id(0);
    xrt::bo from(on.device, LARGE, xrt::bo::flags::host_only, group),
        to(on.device, LARGE, xrt::bo::flags::normal, group);
    xrt::bo between(on.device, LARGE, xrt::bo::flags::device_only, group);
    from.map<int*>()[LARGE / sizeof(int) - 1] = 11;
    between.copy(from);
    to.copy(between);
    to.sync(XCL_BO_SYNC_BO_FROM_DEVICE);
    std::cout << "copied " << to.map<int*>()[LARGE / sizeof(int) - 1] << std::endl;
    return 0;
}

// On a card without an xclbin.
int unloaded() {
    xrt::device device(1);
    alignas(4096) static int own[1024];
    own[1023] = 3;
    xrt::bo buffer(device, own, sizeof own, 0);
    buffer.sync(XCL_BO_SYNC_BO_TO_DEVICE);
    own[1023] = 4;
    buffer.sync(XCL_BO_SYNC_BO_FROM_DEVICE);
    std::cout << "has " << own[1023] << std::endl;
    return 0;
}

// The emulator as a process is a child of the program.
int kill_model(card& on) {
    const std::string children = "/proc/self/task/" + std::to_string(getpid()) + "/children";
    pid_t child = 0;
    if (!(std::ifstream(children) >> child)) return 98;
    kill(child, SIGKILL);
    return add(on, xrt::bo::flags::normal) ? 97 : 96;
}

volatile std::sig_atomic_t received = 0;

int wait_for_signal() {
    for (int each : {SIGINT, SIGTERM, SIGUSR1}) std::signal(each, [](int number) { received = number; });
    std::cout << "ready" << std::endl;
    while (!received) usleep(1000);
    std::cout << "signal " << received << std::endl;
    return 40 + received;
}

}  // namespace

int main(int count, char** words) {
    const std::string file = words[1], action = words[2];
    const int number = count > 3 ? std::atoi(words[3]) : 0;
    card first(0, file);
    if (action == "add") return add(first, xrt::bo::flags::normal);
    if (action == "host_only") return add(first, xrt::bo::flags::host_only);
    if (action == "p2p") return add(first, xrt::bo::flags::p2p);
    if (action == "fail") return fail(first, number);
    if (action == "exit") return number;
    if (action == "copy") return copy(first);
    if (action == "unloaded") return unloaded();
    if (action == "kill_model") return kill_model(first);
    if (action == "signal") return wait_for_signal();
    if (action == "crash") return *reinterpret_cast<volatile int*>(8);
    card second(action == "share" ? 1 : 0, file);
    if (action == "share") return share(first, second);
    if (action == "again") return add(first, xrt::bo::flags::normal) + add(second, xrt::bo::flags::normal);
    return 99;
}
