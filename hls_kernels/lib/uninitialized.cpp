// Part of builds for the emulator with --uninitialized: what the compiler's checks for uninitialized reads call. A value that
// was never written ends the run of the compute unit as soon as a branch or an address depends on it, or as it is written to
// a buffer or a stream. Copies and arithmetic carry it along.
//
// The names are those of clang's -fsanitize=kernel-memory, which leaves the place of its records to these functions. Only
// local variables of the kernel have records; all other memory counts as written. xclbin_build/toolchain/places.py makes
// the table of lines. One thread runs a compute unit, and each compute unit has a copy of this file's variables.
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include <sys/mman.h>

#include "card_abi.hpp"

extern "C" fpga::leave_function fpga_leave;

namespace {

// Of each byte of a variable: the bits that were not written, and for each four bytes the number of the variable.
constexpr unsigned CHUNK_BITS = 20, LOW_BITS = 13, HIGH_BITS = 47 - CHUNK_BITS - LOW_BITS;
constexpr uintptr_t CHUNK = uintptr_t{1} << CHUNK_BITS;
constexpr uintptr_t BEYOND = 4096;  // what an access reaches behind the end of its chunk
struct chunk {
    unsigned char unwritten[CHUNK + BEYOND];
    unsigned char variable[CHUNK + BEYOND];
};
struct records {
    void *unwritten, *variable;
};

chunk** chunks[1u << HIGH_BITS];  // by the address
chunk* all_chunks[4096];
uint32_t chunk_count;
alignas(64) unsigned char written[2 * BEYOND];  // of memory without records, for loads
alignas(64) unsigned char ignored[2 * BEYOND];  // and for stores
alignas(64) unsigned char state[2 * BEYOND];    // of arguments and results; its layout is the compiler's
uintptr_t last_store;

constexpr uint32_t VARIABLES = 4096;
const char* variables[VARIABLES];

// A buffer of the run; `touched` has a byte for each of its bytes that the kernel has written.
struct argument {
    uintptr_t begin, end;
    const char* name;
    unsigned char* touched;
    uintptr_t highest;  // behind the last byte that was written
    bool is_read;
};
constexpr uint32_t ARGUMENTS = 32;
argument arguments[ARGUMENTS];
uint32_t argument_count;
uintptr_t lowest_argument = UINTPTR_MAX, behind_arguments;

// An entry for each check, in the order of addresses.
struct line {
    int32_t code, file;  // both relative to the place where they lie
    uint32_t number;
};

chunk*** level_of(uintptr_t address) { return &chunks[(address >> (CHUNK_BITS + LOW_BITS)) & ((1u << HIGH_BITS) - 1)]; }
chunk* found(uintptr_t address) {
    chunk** low = *level_of(address);
    return low ? low[(address >> CHUNK_BITS) & ((1u << LOW_BITS) - 1)] : nullptr;
}
void* memory(uint64_t bytes) {
    void* got = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return got == MAP_FAILED ? nullptr : got;
}
chunk* made(uintptr_t address) {
    chunk**& low = *level_of(address);
    if (!low) low = static_cast<chunk**>(memory(sizeof(chunk*) << LOW_BITS));
    if (!low) return nullptr;
    chunk*& own = low[(address >> CHUNK_BITS) & ((1u << LOW_BITS) - 1)];
    if (!own && chunk_count < sizeof all_chunks / sizeof *all_chunks) {
        own = static_cast<chunk*>(memory(sizeof(chunk)));
        if (own) all_chunks[chunk_count++] = own;
    }
    return own;
}
records records_of(chunk* own, uintptr_t address) {
    const uintptr_t at = address & (CHUNK - 1);
    return {own->unwritten + at, own->variable + (at & ~uintptr_t{3})};
}
argument* argument_at(uintptr_t address) {
    if (address < lowest_argument || address >= behind_arguments) return nullptr;
    for (uint32_t i = 0; i < argument_count; i++)
        if (address >= arguments[i].begin && address < arguments[i].end) return &arguments[i];
    return nullptr;
}
void note_read(uintptr_t address) {
    if (argument* own = argument_at(address)) own->is_read = true;
}
void note_write(uintptr_t address, uint64_t bytes) {
    argument* own = argument_at(address);
    if (!own || !own->touched) return;
    const uintptr_t end = address + bytes < own->end ? address + bytes : own->end;
    std::memset(own->touched + (address - own->begin), 1, end - address);
    if (end > own->highest) own->highest = end;
}

records loaded(uintptr_t address) {
    if (chunk* own = found(address)) return records_of(own, address);
    note_read(address);
    return {written, written};
}
records stored(uintptr_t address, uint64_t bytes) {
    last_store = address;
    if (chunk* own = found(address)) return records_of(own, address);
    note_write(address, bytes);
    return {ignored, ignored};
}

// Calls `each` with the records of the parts of a piece of memory that lie in one chunk each; null without records.
template <class F>
void in_chunks(uintptr_t address, uint64_t bytes, bool make, F each) {
    for (uint64_t done = 0; done < bytes;) {
        const uintptr_t at = address + done, left = CHUNK - (at & (CHUNK - 1));
        const uint64_t part = bytes - done < left ? bytes - done : left;
        chunk* own = make ? made(at) : found(at);
        each(done, part, own, at & (CHUNK - 1));
        done += part;
    }
}
void set_written(uintptr_t address, uint64_t bytes) {
    in_chunks(address, bytes, false, [](uint64_t, uint64_t part, chunk* own, uintptr_t at) {
        if (own) std::memset(own->unwritten + at, 0, part);
    });
}
void copy_record(uintptr_t to, uintptr_t from) {
    chunk *own = found(to), *other = found(from);
    if (!own) return;
    const uintptr_t at = to & (CHUNK - 1), there = from & (CHUNK - 1);
    own->unwritten[at] = other ? other->unwritten[there] : 0;
    if (other) std::memcpy(own->variable + (at & ~uintptr_t{3}), other->variable + (there & ~uintptr_t{3}), 4);
}
void copy_records(uintptr_t to, uintptr_t from, uint64_t bytes) {
    for (uint64_t i = 0; i < bytes; i++) {
        const uint64_t byte = to < from ? i : bytes - 1 - i;  // they may overlap
        copy_record(to + byte, from + byte);
    }
}

uint32_t number_of(const char* name) {
    uint32_t at = static_cast<uint32_t>((reinterpret_cast<uintptr_t>(name) >> 1) * 2654435761u) % (VARIABLES - 1);
    for (uint32_t tries = 0; tries < VARIABLES - 1; tries++, at = (at + 1) % (VARIABLES - 1)) {
        if (!variables[at + 1]) variables[at + 1] = name;
        if (variables[at + 1] == name) return at + 1;
    }
    return 0;
}

}  // namespace

// The section that xclbin_build/toolchain/places.py writes.
extern "C" {
__attribute__((weak, visibility("hidden"))) extern const line __start_fpga_places[];
__attribute__((weak, visibility("hidden"))) extern const line __stop_fpga_places[];
}

namespace {

const char* relative(const int32_t& offset) { return reinterpret_cast<const char*>(&offset) + offset; }

const line* line_of(const void* code) {
    for (const line* each = __start_fpga_places; each != __stop_fpga_places; each++)
        if (relative(each->code) == code) return each;
    return nullptr;
}

[[noreturn]] void leave(uint32_t variable, const char* what, const char* file, uint32_t number) {
    const char* name = variable < VARIABLES && variables[variable] ? variables[variable] : "";
    const int length = static_cast<int>(std::strcspn(name, "."));  // behind it the optimizer numbers copies
    char text[400], place[160] = "";
    if (file) {
        const char* slash = std::strrchr(file, '/');
        std::snprintf(place, sizeof place, " (%.120s:%u)", slash ? slash + 1 : file, number);
    }
    if (*name)
        std::snprintf(text, sizeof text, "%s an uninitialized value of '%.*s'%s", what, length < 80 ? length : 80, name,
                      place);
    else
        std::snprintf(text, sizeof text, "%s an uninitialized value%s", what, place);
    if (fpga_leave) fpga_leave(text);
    __builtin_trap();
}
[[noreturn]] void leave(uint32_t variable, const char* what, const void* code) {
    const line* at = line_of(code);
    leave(variable, what, at ? relative(at->file) : nullptr, at ? at->number : 0);
}

}  // namespace

extern "C" {

// Before each run: what the run before has left on the stack has no records any more.
void fpga_begin_records() {
    for (uint32_t i = 0; i < chunk_count; i++) madvise(all_chunks[i], sizeof(chunk), MADV_DONTNEED);
    std::memset(state, 0, sizeof state);
    for (uint32_t i = 0; i < argument_count; i++)
        if (arguments[i].touched) munmap(arguments[i].touched, arguments[i].end - arguments[i].begin);
    argument_count = 0;
    lowest_argument = UINTPTR_MAX;
    behind_arguments = 0;
}
// A buffer of the run. may_write: its elements are not constant.
void fpga_add_argument(const void* begin, uint64_t bytes, const char* name, bool may_write) {
    if (argument_count == ARGUMENTS || !bytes) return;
    const auto at = reinterpret_cast<uintptr_t>(begin);
    auto* touched = may_write ? static_cast<unsigned char*>(memory(bytes)) : nullptr;
    arguments[argument_count++] = {at, at + bytes, name, touched, at, false};
    if (at < lowest_argument) lowest_argument = at;
    if (at + bytes > behind_arguments) behind_arguments = at + bytes;
}
// Behind each run that has ended by itself: warns of arguments for results that were not written, or have gaps.
void fpga_end_records(const char* kernel) {
    for (uint32_t i = 0; i < argument_count; i++) {
        const argument& own = arguments[i];
        if (!own.touched || own.is_read) continue;
        const uint64_t end = own.highest - own.begin;
        const void* gap = end ? std::memchr(own.touched, 0, end) : nullptr;
        if (!end)
            std::fprintf(stderr, "fpga_dynamo: warning: kernel '%s' has not written to argument '%s'\n", kernel,
                         own.name);
        else if (gap)
            std::fprintf(
                stderr,
                "fpga_dynamo: warning: kernel '%s' has left a gap in argument '%s': byte %llu was never written\n",
                kernel, own.name,
                static_cast<unsigned long long>(static_cast<const unsigned char*>(gap) - own.touched));
    }
}
// An element of a stream, which leads to memory without records.
void fpga_check_written(const void* element, uint64_t bytes, const char* stream, const char* file, int number) {
    const auto begin = reinterpret_cast<uintptr_t>(element);
    for (uintptr_t at = begin; at < begin + bytes; at++) {
        chunk* own = found(at);
        if (!own || !own->unwritten[at & (CHUNK - 1)]) continue;
        uint32_t variable;
        std::memcpy(&variable, own->variable + (at & (CHUNK - 4)), sizeof variable);
        char text[160];
        std::snprintf(text, sizeof text, "wrote to stream '%.80s'", stream);
        leave(variable, text, file, static_cast<uint32_t>(number));
    }
}

void* __msan_get_context_state() { return state; }

records __msan_metadata_ptr_for_load_1(uintptr_t address) { return loaded(address); }
records __msan_metadata_ptr_for_load_2(uintptr_t address) { return loaded(address); }
records __msan_metadata_ptr_for_load_4(uintptr_t address) { return loaded(address); }
records __msan_metadata_ptr_for_load_8(uintptr_t address) { return loaded(address); }
records __msan_metadata_ptr_for_load_n(uintptr_t address, uint64_t) { return loaded(address); }
records __msan_metadata_ptr_for_store_1(uintptr_t address) { return stored(address, 1); }
records __msan_metadata_ptr_for_store_2(uintptr_t address) { return stored(address, 2); }
records __msan_metadata_ptr_for_store_4(uintptr_t address) { return stored(address, 4); }
records __msan_metadata_ptr_for_store_8(uintptr_t address) { return stored(address, 8); }
records __msan_metadata_ptr_for_store_n(uintptr_t address, uint64_t bytes) { return stored(address, bytes); }

void __msan_poison_alloca(uintptr_t address, uint64_t bytes, const char* name) {
    const uint32_t variable = number_of(name);
    in_chunks(address, bytes, true, [variable](uint64_t, uint64_t part, chunk* own, uintptr_t at) {
        if (!own) return;
        std::memset(own->unwritten + at, 0xff, part);
        for (uintptr_t i = at & ~uintptr_t{3}; i < at + part; i += 4) std::memcpy(own->variable + i, &variable, 4);
    });
}
void __msan_unpoison_alloca(uintptr_t address, uint64_t bytes) { set_written(address, bytes); }
void __msan_instrument_asm_store(uintptr_t address, uint64_t bytes) { set_written(address, bytes); }

// Called where a value that was not written is stored, right after the records of the place were asked for.
uint32_t __msan_chain_origin(uint32_t variable) {
    const argument* own = argument_at(last_store);
    if (!own) return variable;
    char text[160];
    std::snprintf(text, sizeof text, "wrote to argument '%.80s'", own->name);
    leave(variable, text, __builtin_return_address(0));
}
[[noreturn]] void __msan_warning(uint32_t variable) { leave(variable, "used", __builtin_return_address(0)); }

void* __msan_memcpy(void* to, const void* from, size_t bytes) {
    note_read(reinterpret_cast<uintptr_t>(from));
    note_write(reinterpret_cast<uintptr_t>(to), bytes);
    copy_records(reinterpret_cast<uintptr_t>(to), reinterpret_cast<uintptr_t>(from), bytes);
    return std::memcpy(to, from, bytes);
}
void* __msan_memmove(void* to, const void* from, size_t bytes) {
    note_read(reinterpret_cast<uintptr_t>(from));
    note_write(reinterpret_cast<uintptr_t>(to), bytes);
    copy_records(reinterpret_cast<uintptr_t>(to), reinterpret_cast<uintptr_t>(from), bytes);
    return std::memmove(to, from, bytes);
}
void* __msan_memset(void* to, int value, size_t bytes) {
    note_write(reinterpret_cast<uintptr_t>(to), bytes);
    set_written(reinterpret_cast<uintptr_t>(to), bytes);
    return std::memset(to, value, bytes);
}

// Functions of the C library that write to where a pointer leads: the linker has their calls end here.
#define WRITES_ONE(RESULT, NAME, VALUE, WRITTEN)                  \
    RESULT __real_##NAME(VALUE, WRITTEN*);                        \
    RESULT __wrap_##NAME(VALUE x, WRITTEN* to) {                  \
        set_written(reinterpret_cast<uintptr_t>(to), sizeof *to); \
        return __real_##NAME(x, to);                              \
    }
#define WRITES_TWO(NAME, VALUE)                                         \
    void __real_##NAME(VALUE, VALUE*, VALUE*);                          \
    void __wrap_##NAME(VALUE x, VALUE* one, VALUE* other) {             \
        set_written(reinterpret_cast<uintptr_t>(one), sizeof *one);     \
        set_written(reinterpret_cast<uintptr_t>(other), sizeof *other); \
        __real_##NAME(x, one, other);                                   \
    }
WRITES_ONE(double, frexp, double, int)
WRITES_ONE(float, frexpf, float, int)
WRITES_ONE(double, modf, double, double)
WRITES_ONE(float, modff, float, float)
WRITES_TWO(sincos, double)
WRITES_TWO(sincosf, float)

char* __real_strcpy(char*, const char*);
char* __wrap_strcpy(char* to, const char* from) {
    set_written(reinterpret_cast<uintptr_t>(to), std::strlen(from) + 1);
    return __real_strcpy(to, from);
}
char* __real_strncpy(char*, const char*, size_t);
char* __wrap_strncpy(char* to, const char* from, size_t bytes) {
    set_written(reinterpret_cast<uintptr_t>(to), bytes);
    return __real_strncpy(to, from, bytes);
}
int __wrap_snprintf(char* to, size_t bytes, const char* format, ...) {
    set_written(reinterpret_cast<uintptr_t>(to), bytes);
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(to, bytes, format, arguments);
    va_end(arguments);
    return length;
}
int __wrap_sprintf(char* to, const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const int length = vsprintf(to, format, arguments);
    va_end(arguments);
    if (length >= 0) set_written(reinterpret_cast<uintptr_t>(to), static_cast<uint64_t>(length) + 1);
    return length;
}

}  // extern "C"
