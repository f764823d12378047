// Functions of libraries as XRT's sw_emu driver calls them: it calls `driver_NAME` for NAME.
#include <malloc.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

namespace {

// Of the driver's message buffers: its packets of 8 MiB, and fields around them. It drops what realloc returns, so a
// buffer must be large enough from the start. Pages that nobody touches cost nothing.
constexpr size_t MESSAGE_BYTES = size_t{16} << 20;

// The driver would wait for an answer forever.
[[noreturn]] void card_lost() {
    std::fputs("fpga_dynamo: the process that emulates the card has ended or was killed, so this program ends too\n",
               stderr);
    if (ftrylockfile(stdout) == 0) fflush_unlocked(stdout);
    _exit(1);
}

}  // namespace

extern "C" {

void* driver_malloc(size_t bytes) { return std::malloc(std::max(bytes, MESSAGE_BYTES)); }

void* driver_realloc(void* memory, size_t bytes) {
    if (memory && malloc_usable_size(memory) >= bytes) return memory;
    return std::realloc(memory, bytes);
}

ssize_t driver_read(int file, void* target, size_t bytes) {
    const ssize_t count = ::read(file, target, bytes);
    if (bytes > 0 && (count == 0 || (count < 0 && errno == ECONNRESET))) card_lost();
    return count;
}

ssize_t driver_write(int file, const void* source, size_t bytes) {
    const ssize_t count = send(file, source, bytes, MSG_NOSIGNAL);
    if (count < 0 && (errno == EPIPE || errno == ECONNRESET)) card_lost();
    return count < 0 && errno == ENOTSOCK ? ::write(file, source, bytes) : count;
}

// The driver's handlers end the whole process group; the program's own stay.
int driver_sigaction(int, const struct sigaction*, struct sigaction*) { return 0; }

// Called before the driver removes a folder.
unsigned driver_sleep(unsigned) { return 0; }

// The driver repeats it until it succeeds, also when the program has waited for all its children already.
pid_t driver_waitpid(pid_t process, int* status, int options) {
    const pid_t ended = ::waitpid(process, status, options);
    return ended < 0 && errno != EINTR ? 0 : ended;
}

// Called when a device is closed; the program may open it again.
void driver_shut_protobuf_down() {}

}  // extern "C"
