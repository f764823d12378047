#include "xclbin.hpp"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>

#include "cpu.hpp"
#include "error.hpp"
#include "json.hpp"
#include "sha256.hpp"

namespace card_model {

namespace {

// Offsets and sizes of XRT's xclbin.h (struct axlf, axlf_header, axlf_section_header).
constexpr char MAGIC[8] = {'x', 'c', 'l', 'b', 'i', 'n', '2', '\0'};
constexpr size_t HEADER = 304;
constexpr size_t LENGTH = HEADER;
constexpr size_t MODE = HEADER + 28;
constexpr size_t PLATFORM_NAME = HEADER + 48;  // m_platformVBNV[64]
constexpr size_t UUID = HEADER + 112;
constexpr size_t SECTION_COUNT = HEADER + 144;
constexpr size_t SECTIONS = 456;
constexpr size_t SECTION_BYTES = 40;  // kind, name[16], pad, offset, size
constexpr uint32_t MAX_SECTIONS = 1024;
constexpr uint64_t MAX_DEPTH = 1u << 20;  // elements of a stream

enum section_kind : uint32_t { BITSTREAM = 0, MEM_TOPOLOGY = 6, CONNECTIVITY = 7, IP_LAYOUT = 8, USER_METADATA = 16 };
constexpr size_t MEMORY_BYTES = 40;      // type, used, pad[6], size in KiB, base, tag[16]
constexpr size_t IP_BYTES = 80;          // type, properties, base, name[64]
constexpr size_t CONNECTION_BYTES = 12;  // argument, ip, memory
constexpr uint32_t IP_KERNEL = 1;
constexpr uint64_t NO_ADDRESS = ~uint64_t{0};

template <typename T>
T load(const std::string& bytes, size_t offset) {  // the caller has checked the range
    T value;
    std::memcpy(&value, bytes.data() + offset, sizeof value);
    return value;
}

std::string fixed_string(const std::string& bytes, size_t offset, size_t length) {
    const char* text = bytes.data() + offset;
    return std::string(text, strnlen(text, length));
}

// A section that is a 32-bit count, padded to `header` bytes, then records.
uint32_t record_count(const std::string& section, size_t header, size_t record) {
    if (section.size() < header) return UINT32_MAX;
    const auto count = load<int32_t>(section, 0);
    if (count < 0 || static_cast<uint64_t>(count) * record > section.size() - header) return UINT32_MAX;
    return static_cast<uint32_t>(count);
}

struct ip {
    std::string kernel, instance;
    uint64_t base;
};

ip read_ip(const std::string& section, uint32_t index) {
    const size_t at = 8 + index * IP_BYTES;
    const std::string name = fixed_string(section, at + 16, 64);
    const size_t colon = name.find(':');
    if (colon == std::string::npos) return {name, "", load<uint64_t>(section, at + 8)};
    return {name.substr(0, colon), name.substr(colon + 1), load<uint64_t>(section, at + 8)};
}

}  // namespace

std::string to_string(const uuid& id) {
    static const char digits[] = "0123456789abcdef";
    std::string text;
    for (size_t i = 0; i < id.size(); ++i) {
        if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
        text += digits[id[i] >> 4];
        text += digits[id[i] & 15];
    }
    return text;
}

uuid parse_uuid(const std::string& text) {
    uuid id{};
    size_t digits = 0;
    for (const char c : text) {
        if (c == '-') continue;
        int nibble = -1;
        if (c >= '0' && c <= '9') nibble = c - '0';
        if (c >= 'a' && c <= 'f') nibble = c - 'a' + 10;
        if (c >= 'A' && c <= 'F') nibble = c - 'A' + 10;
        if (nibble < 0 || digits == 32) throw error("'" + text + "' is not a UUID (32 hexadecimal digits)");
        id[digits / 2] = static_cast<uint8_t>(id[digits / 2] << 4 | nibble);
        ++digits;
    }
    if (digits != 32) throw error("'" + text + "' is not a UUID (32 hexadecimal digits)");
    return id;
}

namespace {

int& stream_end(std::vector<kernel_info>& kernels, const std::string& port) {
    for (kernel_info& kernel : kernels)
        for (compute_unit_info& unit : kernel.compute_units)
            for (size_t a = 0; a < kernel.arguments.size(); ++a)
                if (kernel.arguments[a].stream && unit.name + "." + kernel.arguments[a].name == port)
                    return unit.streams[a];
    throw error("the stream of '" + port + "' has no such end");
}

}  // namespace

void connect_streams(std::vector<kernel_info>& kernels, const std::vector<stream_ends>& streams) {
    for (size_t i = 0; i < streams.size(); ++i)
        for (const std::string& port : streams[i]) {
            int& number = stream_end(kernels, port);
            if (number >= 0) throw error("'" + port + "' is an end of two streams");
            number = static_cast<int>(i);
        }
    for (const kernel_info& kernel : kernels)
        for (const compute_unit_info& unit : kernel.compute_units)
            for (size_t a = 0; a < kernel.arguments.size(); ++a)
                if (kernel.arguments[a].stream && unit.streams[a] < 0)
                    throw error("stream '" + kernel.arguments[a].name + "' of compute unit '" + unit.name +
                                "' is connected to nothing");
}

void xclbin::fail(const std::string& what) const { throw xclbin_error("xclbin '" + name_ + "': " + what); }

xclbin xclbin::from_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw xclbin_error("xclbin '" + path + "' " + system_reason("cannot be opened"));
    std::ostringstream bytes;
    bytes << file.rdbuf();
    if (file.bad()) throw xclbin_error("xclbin '" + path + "' " + system_reason("cannot be read"));
    return from_bytes(bytes.str(), path);
}

xclbin xclbin::from_bytes(const std::string& bytes, std::string name) {
    xclbin result;
    result.name_ = std::move(name);
    result.read_container(bytes);
    return result;
}

void xclbin::read_container(const std::string& bytes) {
    if (bytes.size() < SECTIONS || std::memcmp(bytes.data(), MAGIC, sizeof MAGIC) != 0)
        fail("this is not an xclbin file (the magic 'xclbin2' is missing)");
    if (const auto length = load<uint64_t>(bytes, LENGTH); length > bytes.size())
        fail("the file is truncated: the header says " + std::to_string(length) + " bytes, there are " +
             std::to_string(bytes.size()));
    platform_ = fixed_string(bytes, PLATFORM_NAME, 64);
    std::memcpy(id_.data(), bytes.data() + UUID, id_.size());

    const auto count = load<uint32_t>(bytes, SECTION_COUNT);
    if (count > MAX_SECTIONS || SECTIONS + uint64_t{count} * SECTION_BYTES > bytes.size())
        fail("the table of " + std::to_string(count) + " sections does not fit into the file");
    std::map<uint32_t, std::string> sections;
    for (uint32_t i = 0; i < count; ++i) {
        const size_t at = SECTIONS + i * SECTION_BYTES;
        const auto kind = load<uint32_t>(bytes, at);
        const auto offset = load<uint64_t>(bytes, at + 24), size = load<uint64_t>(bytes, at + 32);
        if (offset > bytes.size() || size > bytes.size() - offset)
            fail("section " + std::to_string(kind) + " reaches beyond the end of the file");
        sections.emplace(kind, bytes.substr(offset, size));  // the first of a kind counts
    }
    const auto section = [&](section_kind kind, const char* title) -> const std::string& {
        const auto found = sections.find(kind);
        if (found == sections.end()) fail(std::string("section ") + title + " is missing; build it with xclbin-build");
        return found->second;
    };
    try {
        read_manifest(section(USER_METADATA, "USER_METADATA (the manifest)"));
    } catch (const xclbin_error&) {
        throw;
    } catch (const error& reason) {
        fail(std::string("the manifest is malformed: ") + reason.what());
    }
    read_memories(section(MEM_TOPOLOGY, "MEM_TOPOLOGY"));
    read_compute_units(section(IP_LAYOUT, "IP_LAYOUT"));
    try {
        connect_streams(kernels_, stream_ends_);
    } catch (const error& reason) {
        fail(reason.what());
    }
    read_connectivity(section(CONNECTIVITY, "CONNECTIVITY"), sections[IP_LAYOUT]);
    bitstream_ = section(BITSTREAM, "BITSTREAM");
    if (emulated()) check_content(bytes, count);
}

// The UUID that xclbin-build gives a file follows from its content: a loader that meets damaged code crashes.
void xclbin::check_content(const std::string& bytes, uint32_t count) const {
    sha256 digest;
    digest.update(bytes.substr(MODE, 2) + std::string(2, '\0'));  // as 32 bits
    digest.update(platform_ + std::string(64 - platform_.size(), '\0'));
    for (uint32_t i = 0; i < count; ++i) {
        const size_t at = SECTIONS + i * SECTION_BYTES;
        digest.update(bytes.substr(at, 4) + bytes.substr(at + 32, 8));  // kind, size
        digest.update(std::string_view(bytes).substr(load<uint64_t>(bytes, at + 24), load<uint64_t>(bytes, at + 32)));
    }
    const auto hash = digest.finish();
    uuid expected{};
    std::copy_n(hash.begin(), expected.size(), expected.begin());
    expected[6] = static_cast<uint8_t>((expected[6] & 0x0f) | 0x50);  // RFC 9562: version 5, variant
    expected[8] = static_cast<uint8_t>((expected[8] & 0x3f) | 0x80);
    if (expected != id_) fail("the content does not match the UUID in the header: the file is damaged, build it again");
}

void xclbin::read_manifest(const std::string& user_metadata) {
    manifest_ = user_metadata.substr(0, user_metadata.find('\0'));
    const json::value document = json::parse(manifest_);
    const json::value& manifest = document.at("fpga_dynamo");
    if (const auto version = manifest.at("manifest_version").as_unsigned("manifest_version"); version != 1)
        fail("its manifest has version " + std::to_string(version) + ", this release supports 1; build it again");
    target_ = manifest.at("target").as_string("target");
    if (const json::value* isa = manifest.find("isa"); isa && isa->kind() == json::value::type::string)
        isa_ = isa->as_string("isa");
    for (const json::value& entry : manifest.at("kernels").as_array("kernels")) {
        kernel_info kernel;
        kernel.name = entry.at("name").as_string("kernel name");
        kernel.lanes = entry.at("lanes").as_bool("lanes");
        kernel.watch_buffers = !kernel.lanes;
        if (const json::value* free_running = entry.find("free_running"))
            kernel.free_running = free_running->as_bool("free_running");
        kernel.has_mailbox = entry.find("mailbox") != nullptr;
        if (const json::value* restarts = entry.find("auto_restart"))
            kernel.restarts = restarts->as_bool("auto_restart");
        const auto& arguments = entry.at("args").as_array("args");
        kernel.arguments.resize(arguments.size());
        for (const json::value& argument : arguments) {
            const auto index = argument.at("index").as_unsigned("argument index");
            if (index >= arguments.size() || !kernel.arguments[index].name.empty())
                fail("the manifest's argument indices of kernel '" + kernel.name + "' are not 0 to n - 1");
            argument_info& info = kernel.arguments[index];
            const auto offset = argument.at("offset").as_unsigned("argument offset");
            const auto bytes = argument.at("bytes").as_unsigned("argument bytes");
            info.name = argument.at("name").as_string("argument name");
            info.global = argument.at("kind").as_string("argument kind") == "global";
            info.stream = argument.at("kind").as_string("argument kind") == "stream";
            if (info.stream) continue;
            if (const json::value* output = argument.find("output")) info.output = output->as_bool("output");
            if (bytes < 1 || bytes > 64 || offset < 0x10 || offset + bytes > 4096 || (info.global && bytes != 8))
                fail("argument '" + info.name + "' of kernel '" + kernel.name + "' lies outside the register map");
            info.offset = static_cast<uint32_t>(offset);
            info.bytes = static_cast<uint32_t>(bytes);
        }
        kernels_.push_back(std::move(kernel));
    }
    if (kernels_.empty()) fail("the manifest names no kernel");
    if (const json::value* streams = manifest.find("streams"))
        for (const json::value& stream : streams->as_array("streams")) {
            const std::string& from = stream.at("source").as_string("source");
            const std::string& to = stream.at("destination").as_string("destination");
            const auto depth = stream.at("depth").as_unsigned("depth");
            std::string name = from;
            name.append(":").append(to);
            if (depth < 1 || depth > MAX_DEPTH) fail("stream " + name + " has an impossible depth");
            streams_.push_back({std::move(name), static_cast<uint32_t>(depth)});
            stream_ends_.push_back({from, to});
        }
}

void xclbin::read_memories(const std::string& section) {
    const uint32_t count = record_count(section, 8, MEMORY_BYTES);
    if (count == UINT32_MAX) fail("section MEM_TOPOLOGY is malformed");
    for (uint32_t i = 0; i < count; ++i) {
        const size_t at = 8 + i * MEMORY_BYTES;
        memory_info memory;
        memory.used = section[at + 1] != 0;
        memory.base = load<uint64_t>(section, at + 16);
        memory.tag = fixed_string(section, at + 24, 16);
        const auto kib = load<uint64_t>(section, at + 8);
        if (kib > (uint64_t{1} << 36) || memory.base > (uint64_t{1} << 56))
            fail("bank '" + memory.tag + "' has an impossible address or size");
        memory.bytes = kib * 1024;
        for (const memory_info& other : memories_)
            if (memory.used && other.used && memory.base < other.base + other.bytes &&
                other.base < memory.base + memory.bytes)
                fail("banks '" + other.tag + "' and '" + memory.tag + "' overlap");
        memories_.push_back(std::move(memory));
    }
}

void xclbin::read_compute_units(const std::string& section) {
    const uint32_t count = record_count(section, 8, IP_BYTES);
    if (count == UINT32_MAX) fail("section IP_LAYOUT is malformed");
    for (uint32_t i = 0; i < count; ++i) {
        const ip unit = read_ip(section, i);
        if (load<uint32_t>(section, 8 + i * IP_BYTES) != IP_KERNEL) continue;
        const auto kernel = std::find_if(kernels_.begin(), kernels_.end(),
                                         [&](const kernel_info& k) { return k.name == unit.kernel; });
        if (kernel == kernels_.end())
            fail("compute unit '" + unit.instance + "' is of kernel '" + unit.kernel +
                 "', which is missing in the manifest");
        if (unit.base == NO_ADDRESS && !kernel->free_running) continue;
        const size_t arguments = kernel->arguments.size();
        kernel->compute_units.push_back(
            {unit.instance, unit.base, std::vector<std::vector<uint32_t>>(arguments), std::vector<int>(arguments, -1)});
    }
    for (const kernel_info& kernel : kernels_)
        if (kernel.compute_units.empty()) fail("kernel '" + kernel.name + "' has no compute unit");
}

void xclbin::read_connectivity(const std::string& section, const std::string& ip_layout) {
    const uint32_t count = record_count(section, 4, CONNECTION_BYTES);
    const uint32_t ips = record_count(ip_layout, 8, IP_BYTES);
    if (count == UINT32_MAX) fail("section CONNECTIVITY is malformed");
    for (uint32_t i = 0; i < count; ++i) {
        const size_t at = 4 + i * CONNECTION_BYTES;
        const auto argument = load<uint32_t>(section, at), index = load<uint32_t>(section, at + 4),
                   memory = load<uint32_t>(section, at + 8);
        if (index >= ips || memory >= memories_.size())
            fail("section CONNECTIVITY names a compute unit or bank that does not exist");
        const ip unit = read_ip(ip_layout, index);
        for (kernel_info& kernel : kernels_)
            for (compute_unit_info& candidate : kernel.compute_units)
                if (kernel.name == unit.kernel && candidate.name == unit.instance) {
                    if (argument >= kernel.arguments.size())
                        fail("section CONNECTIVITY wires an argument that kernel '" + kernel.name + "' lacks");
                    candidate.banks[argument].push_back(memory);
                }
    }
    for (const kernel_info& kernel : kernels_)
        for (const compute_unit_info& unit : kernel.compute_units)
            for (size_t a = 0; a < kernel.arguments.size(); ++a)
                if (kernel.arguments[a].global && unit.banks[a].empty())
                    fail("argument '" + kernel.arguments[a].name + "' of compute unit '" + unit.name +
                         "' is wired to no bank");
}

void xclbin::check_runs_here() const {
    if (!emulated())
        fail("it was built for target '" + target_ + "', but the emulator runs 'emu'; build it with " +
             "`xclbin-build --target emu`, or run it on a card with driver 'xrt'");
    if (bitstream_.size() < 4 || bitstream_.compare(0, 4, "\177ELF") != 0)
        fail("section BITSTREAM holds no shared object");
    if (!cpu_runs(isa_))
        fail("its kernels are compiled for " + isa_ + ", this CPU has " + cpu_level() + "; build it on this machine");
}

}  // namespace card_model
