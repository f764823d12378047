#include "relay.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

namespace {

constexpr size_t HEADER = 9;  // of a reply: 0x09, size of the rest in 64 bits
// Size of the rest; field 1: 1 (done, acknowledged); field 2: a control register that says done.
constexpr char ANSWER[] = {0x09, 8, 0, 0, 0, 0, 0, 0, 0, 0x08, 0x01, 0x12, 0x04, 0x06, 0, 0, 0};
constexpr size_t CHUNK = 1 << 20;

// The descriptor of this process that is connected to `peer`, or -1.
int socket_to(pid_t peer) {
    DIR* directory = opendir("/proc/self/fd");
    if (!directory) return -1;
    int found = -1;
    while (const dirent* entry = readdir(directory)) {
        const int file = std::atoi(entry->d_name);
        ucred other{};
        socklen_t length = sizeof other;
        if (file > 2 && getsockopt(file, SOL_SOCKET, SO_PEERCRED, &other, &length) == 0 && other.pid == peer)
            found = file;
    }
    closedir(directory);
    return found;
}

bool send_all(int file, const char* data, size_t bytes) {
    while (bytes > 0) {
        const ssize_t count = send(file, data, bytes, MSG_NOSIGNAL);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return false;
        data += count;
        bytes -= static_cast<size_t>(count);
    }
    return true;
}

// How much of a reply is still to come.
class framing {
public:
    void pass(const char* data, size_t bytes) {
        while (bytes > 0) {
            if (header_ == HEADER && body_ == 0) header_ = 0;
            const size_t wanted = header_ < HEADER ? HEADER - header_ : static_cast<size_t>(body_);
            const size_t taken = std::min(wanted, bytes);
            if (header_ < HEADER) {
                std::memcpy(bytes_ + header_, data, taken);
                header_ += taken;
                if (header_ == HEADER) std::memcpy(&body_, bytes_ + 1, sizeof body_);
            } else {
                body_ -= taken;
            }
            data += taken;
            bytes -= taken;
        }
    }
    uint64_t missing() const { return header_ == HEADER ? body_ : 0; }

private:
    char bytes_[HEADER];
    size_t header_ = HEADER;
    uint64_t body_ = 0;
};

// Until the model is gone.
void carry(int driver, int model, framing& replies) {
    std::vector<char> chunk(CHUNK);
    pollfd lines[2] = {{driver, POLLIN, 0}, {model, POLLIN, 0}};
    for (;;) {
        if (poll(lines, 2, -1) < 0) continue;
        if (lines[1].revents) {
            const ssize_t count = recv(model, chunk.data(), chunk.size(), 0);
            if (count < 0 && errno == EINTR) continue;
            if (count <= 0) return;
            replies.pass(chunk.data(), static_cast<size_t>(count));
            send_all(driver, chunk.data(), static_cast<size_t>(count));
        }
        if (lines[0].revents) {
            const ssize_t count = recv(driver, chunk.data(), chunk.size(), 0);
            if (count > 0 && !send_all(model, chunk.data(), static_cast<size_t>(count))) return;
        }
    }
}

// One answer serves all questions, and there is always one more to be read: so it does not matter how much of a question
// the dead process had taken, nor whether somebody waits for its answer.
void answer_for_ever(int driver, uint64_t missing) {
    const std::vector<char> zeros(CHUNK);
    for (uint64_t left = missing; left > 0; left -= std::min<uint64_t>(left, CHUNK))
        send_all(driver, zeros.data(), std::min<uint64_t>(left, CHUNK));
    std::vector<char> ignored(CHUNK);
    pollfd line{driver, POLLIN | POLLOUT, 0};
    for (size_t sent = 0; poll(&line, 1, -1) >= 0 || errno == EINTR;) {
        if (line.revents & POLLIN) static_cast<void>(!recv(driver, ignored.data(), ignored.size(), MSG_DONTWAIT));
        if (!(line.revents & POLLOUT)) continue;
        const ssize_t count = send(driver, ANSWER + sent, sizeof ANSWER - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (count > 0) sent = (sent + static_cast<size_t>(count)) % sizeof ANSWER;
    }
}

}  // namespace

void relay_to_model(pid_t model, std::function<void()> on_loss) {
    const int file = socket_to(model);
    int pair[2];
    if (file < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) return;
    const int bytes = 4 << 20;
    for (const int end : pair) setsockopt(end, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    const int onward = fcntl(file, F_DUPFD_CLOEXEC, 0);
    dup2(pair[0], file);
    close(pair[0]);
    std::thread([driver = pair[1], onward, on_loss = std::move(on_loss)] {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, nullptr);
        framing replies;
        carry(driver, onward, replies);
        on_loss();
        answer_for_ever(driver, replies.missing());
    }).detach();
}
