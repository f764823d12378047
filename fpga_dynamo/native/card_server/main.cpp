// card-server --listen HOST:PORT --token-file F [options]: this machine's cards for clients at the other end of a network.
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <sstream>

#include "card.hpp"
#include "digest.hpp"
#include "server.hpp"
#include "token_file.hpp"

namespace {

using namespace card_server;

constexpr uint64_t MEBIBYTE = 1 << 20;
constexpr uint64_t MOST_MEBIBYTES = uint64_t{1} << 40;
constexpr int BACKLOG = 128;

std::atomic<bool> stop{false};

const char* const USAGE =
    "usage: card-server --listen HOST:PORT --token-file F [--tls-cert F] [--tls-key F] [--driver emulated|xrt]\n"
    "                   [--xclbin F] [--only-own-xclbin] [--clients N] [--memory MIB] [--keep MIB]\n";

struct options {
    std::string host, port, token_file, certificate, key, driver, xclbin;
    bool only_own_xclbin = false;
    uint64_t clients = 16, memory = MOST_MEBIBYTES, keep = 1024;
};

[[noreturn]] void refuse(const std::string& sentence) { throw std::runtime_error(sentence); }

uint64_t whole_number(const std::string& name, const std::string& text) {
    char* end = nullptr;
    errno = 0;
    const unsigned long long value = std::strtoull(text.c_str(), &end, 10);
    if (text.empty() || text[0] < '0' || text[0] > '9' || *end || errno || value < 1 || value > MOST_MEBIBYTES)
        refuse(name + ": '" + text + "' is no whole number from 1 on");
    return value;
}

void read_place(options& result, const std::string& text) {
    constexpr unsigned MOST_PORT = 65535;
    const size_t colon = text.rfind(':');
    std::string host = text.substr(0, colon);
    if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
    const std::string port = colon == std::string::npos ? "" : text.substr(colon + 1);
    if (host.empty() || port.empty() || port.size() > 5 || port.find_first_not_of("0123456789") != std::string::npos ||
        std::stoul(port) > MOST_PORT)
        refuse("--listen: '" + text + "' is not HOST:PORT");
    result.host = host;
    result.port = port;
}

options parse(int count, char** arguments) {
    options result;
    const std::map<std::string, std::function<void(const std::string&)>> known{
        {"--listen", [&](const std::string& text) { read_place(result, text); }},
        {"--token-file", [&](const std::string& text) { result.token_file = text; }},
        {"--tls-cert", [&](const std::string& text) { result.certificate = text; }},
        {"--tls-key", [&](const std::string& text) { result.key = text; }},
        {"--driver", [&](const std::string& text) { result.driver = text; }},
        {"--xclbin", [&](const std::string& text) { result.xclbin = text; }},
        {"--clients", [&](const std::string& text) { result.clients = whole_number("--clients", text); }},
        {"--memory", [&](const std::string& text) { result.memory = whole_number("--memory", text); }},
        {"--keep", [&](const std::string& text) { result.keep = whole_number("--keep", text); }},
    };
    for (int i = 1; i < count; ++i) {
        const std::string name = arguments[i];
        if (name == "--help") {
            std::fputs(USAGE, stdout);
            std::exit(0);
        }
        if (name == "--only-own-xclbin") {
            result.only_own_xclbin = true;
            continue;
        }
        const auto found = known.find(name);
        if (found == known.end()) refuse("there is no option '" + name + "'; see --help");
        if (i + 1 == count) refuse("option " + name + " needs a value");
        found->second(arguments[++i]);
    }
    if (result.port.empty()) refuse("--listen HOST:PORT is missing; port 0 is any free one");
    if (result.token_file.empty()) refuse("--token-file is missing: the secret that clients must have");
    if (!result.key.empty() && result.certificate.empty())
        refuse("--tls-key needs --tls-cert, the certificate of that key");
    if (result.only_own_xclbin && result.xclbin.empty())
        refuse("--only-own-xclbin needs --xclbin, the one that clients may load");
    return result;
}

std::unique_ptr<card_driver> driver_of(const std::string& name) {
#ifdef FD_WITH_XRT
    if (name == "xrt") return xrt_driver();
    if (name.empty()) {
        auto cards = xrt_driver();
        if (cards->count() > 0) return cards;
    }
#endif
    if (name == "xrt") refuse("driver 'xrt' cannot be used here: build this program with -DFD_XRT=ON");
    if (!name.empty() && name != "emulated") refuse("--driver: '" + name + "' is unknown; use emulated or xrt");
    return emulated_driver();
}

std::unique_ptr<offered_xclbin> offered(const std::string& path) {
    if (path.empty()) return nullptr;
    std::ifstream file(path, std::ios::binary);
    std::ostringstream bytes;
    if (!file || !(bytes << file.rdbuf())) refuse("--xclbin " + path + ": " + std::strerror(errno));
    auto result = std::make_unique<offered_xclbin>();
    result->bytes = bytes.str();
    result->digest = digest_of(result->bytes.data(), result->bytes.size());
    return result;
}

struct listening {
    int socket;
    unsigned port;
    bool is_loopback;
};

listening listen_at(const options& given) {
    const auto fail = [&](const char* reason) {
        refuse("--listen '" + given.host + "':" + given.port + ": " + reason + "; give another");
    };
    addrinfo wanted{}, *found = nullptr;
    wanted.ai_socktype = SOCK_STREAM;
    wanted.ai_flags = AI_PASSIVE;
    if (const int code = getaddrinfo(given.host.c_str(), given.port.c_str(), &wanted, &found); code != 0)
        fail(gai_strerror(code));
    const std::unique_ptr<addrinfo, void (*)(addrinfo*)> keep(found, freeaddrinfo);
    const int made = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int on = 1;
    setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (made < 0 || bind(made, found->ai_addr, found->ai_addrlen) != 0 || listen(made, BACKLOG) != 0)
        fail(std::strerror(errno));
    sockaddr_storage at{};
    socklen_t bytes = sizeof at;
    getsockname(made, reinterpret_cast<sockaddr*>(&at), &bytes);
    if (at.ss_family == AF_INET6) {
        const auto& v6 = reinterpret_cast<const sockaddr_in6&>(at);
        return {made, ntohs(v6.sin6_port), IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr) != 0};
    }
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(at);
    return {made, ntohs(v4.sin_port), ntohl(v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET};
}

void run(const options& given) {
    const std::string token = read_token(given.token_file);
    std::shared_ptr<const tls_context> tls;
    if (!given.certificate.empty()) {
        if (has_tls()) read_private(given.key.empty() ? given.certificate : given.key, "private key");
        tls = read_certificate(given.certificate, given.key);
    }
    cards all(driver_of(given.driver), {given.clients, given.memory * MEBIBYTE, given.keep * MEBIBYTE},
              offered(given.xclbin), given.only_own_xclbin);
    if (all.count() == 0) refuse("driver '" + std::string(all.driver->name()) + "' sees no card");
    const listening at = listen_at(given);
    std::signal(SIGPIPE, SIG_IGN);
    for (const int number : {SIGTERM, SIGINT}) std::signal(number, [](int) { stop = true; });
    if (!tls && !at.is_loopback)
        std::fputs("warning: without --tls-cert everybody on the network can read and change what clients send\n",
                   stderr);
    const std::string shown = given.host.find(':') == std::string::npos ? given.host : "[" + given.host + "]";
    std::printf("ready on %s://%s:%u: %u card(s), driver %s\n", tls ? "tls" : "tcp", shown.c_str(), at.port,
                all.count(), all.driver->name());
    std::fflush(stdout);
    server(all, token, tls).serve(at.socket, stop);
    close(at.socket);
}

}  // namespace

int main(int count, char** arguments) {
    try {
        run(parse(count, arguments));
        card_model::card::shut_down();
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "card-server: %s\n", error.what());
        return 2;
    }
}
