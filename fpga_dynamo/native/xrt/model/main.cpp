// The device-model process that XRT's own sw_emu driver starts and talks to through a socket: the emulator behind
// XRT's protocol (rpc_messages.proto of XRT). It ends when the host process does.
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <thread>

#include "faults.hpp"
#include "model_card.hpp"
#include "wire.hpp"

namespace xrt_model {

namespace {

enum call : uint32_t {
    CLOSE = 1,
    LOAD = 3,
    ALLOCATE = 4,
    FREE = 5,
    TO_DEVICE = 6,
    FROM_DEVICE = 7,
    WRITE_CONTROL = 9,
    READ_CONTROL = 11,
    IMPORT = 27,
    WRITE_REGISTER = 51,
    READ_REGISTER = 52,
};

reply yes(bool really = true) { return reply().number(1, really); }

reply write_registers(model_card& card, uint64_t address, std::string_view data) {
    uint32_t offset = 0;
    register_unit* unit = card.at(address, &offset);
    if (unit) unit->write(offset, data.data(), data.size());
    return yes(unit != nullptr);
}

reply read_registers(model_card& card, uint64_t address) {
    uint32_t offset = 0;
    register_unit* unit = card.at(address, &offset);
    const uint32_t value = unit ? unit->read(offset) : 0;
    return yes().bytes(2, {reinterpret_cast<const char*>(&value), sizeof value});
}

reply answer(model_card& card, const status_page* status, uint32_t api, const message& asked) {
    switch (api) {
        case LOAD:
            if (asked.bytes(1).empty()) return yes();  // the driver starts the process before there is an xclbin
            card.load(std::string(asked.bytes(1)), std::string(asked.bytes(2)));
            return yes();
        case ALLOCATE: {
            const bool shared = status && status->shared_allocation.load();
            return yes().bytes(2, card.ram().allocate(asked.number(1), asked.number(2), shared));
        }
        case FREE: card.ram().release(asked.number(1)); return yes();
        case TO_DEVICE: {
            const std::string_view data = asked.bytes(4);
            std::memcpy(card.ram().range(asked.number(3), data.size()), data.data(), data.size());
            return reply().number(1, data.size());
        }
        case FROM_DEVICE: {
            const uint64_t bytes = asked.number(5);
            const uint8_t* data = card.ram().range(asked.number(4), bytes);
            return reply().number(1, bytes).bytes(2, {reinterpret_cast<const char*>(data), bytes});
        }
        case IMPORT: card.ram().import(asked.number(2), std::string(asked.bytes(1))); return yes();
        case WRITE_CONTROL: return write_registers(card, asked.number(2), asked.bytes(4));
        case READ_CONTROL: return read_registers(card, asked.number(2));
        case WRITE_REGISTER: return write_registers(card, asked.number(1) + asked.number(2), asked.bytes(3));
        case READ_REGISTER: return read_registers(card, asked.number(1) + asked.number(2));
        default: return yes();
    }
}

status_page* map_status() {
    const char* path = std::getenv(STATUS_VARIABLE);
    const int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0) return nullptr;
    void* page = mmap(nullptr, sizeof(status_page), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    return page == MAP_FAILED ? nullptr : static_cast<status_page*>(page);
}

// Ends runs when the host asks for it, and the process when the host is gone, though a kernel may never end.
void watch(model_card& card, status_page* status, pid_t host) {
    card_model::block_foreign_signals();
    uint32_t seen = 0;
    while (getppid() == host) {
        const timespec half_a_second{0, 500000000};
        if (!status) {
            nanosleep(&half_a_second, nullptr);
            continue;
        }
        syscall(SYS_futex, &status->cancellations, FUTEX_WAIT, seen, &half_a_second, nullptr, 0);
        const uint32_t now = status->cancellations.load();
        if (now != seen) card.cancel(status->cancelled_run.load());
        seen = now;
    }
    _exit(0);
}

int serve() {
    const pid_t host = getppid();
    connection wire;
    status_page* status = map_status();
    model_card& card = *new model_card(status);  // its threads outlive this function
    if (status) status->model.store(getpid());
    std::thread(watch, std::ref(card), status, host).detach();
    uint32_t api = 0;
    std::string body;
    while (wire.receive(&api, &body)) {
        const message asked(body);
        reply reaction;
        try {
            reaction = answer(card, status, api, asked);
        } catch (const std::exception& reason) {
            std::fprintf(stderr, "fpga_dynamo's device model: %s\n", reason.what());
            reaction = yes(false);
        }
        if (!wire.send(reaction) || (api == CLOSE && asked.number(3))) break;
    }
    return 0;
}

}  // namespace

}  // namespace xrt_model

int main() {
    signal(SIGINT, SIG_IGN);  // a terminal's is for the host
    signal(SIGPIPE, SIG_IGN);
    rlimit files{};  // one for each buffer
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    try {
        _exit(xrt_model::serve());  // kernels may still run
    } catch (const std::exception& reason) {
        std::fprintf(stderr, "fpga_dynamo's device model: %s\n", reason.what());
        _exit(1);
    }
}
