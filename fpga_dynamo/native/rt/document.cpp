#include "document.hpp"

#include <algorithm>
#include <array>

#include "checksum.hpp"
#include "error.hpp"
#include "json.hpp"
#include "model_error.hpp"

namespace fd {

namespace {

using card_model::json::value;

constexpr std::array<dtype_info, 9> DTYPES{{{"float32", FD_FLOAT32, element::float32},
                                            {"float16", FD_FLOAT16, element::two_bytes},
                                            {"bfloat16", FD_BFLOAT16, element::two_bytes},
                                            {"int64", FD_INT64, element::int64},
                                            {"int32", FD_INT32, element::int32},
                                            {"int8", FD_INT8, element::byte},
                                            {"uint8", FD_UINT8, element::byte},
                                            {"bool", FD_BOOL, element::boolean},
                                            {"complex64", FD_COMPLEX64, element::complex64}}};

[[noreturn]] void damaged(const std::string& what) { throw invalid_model("model.json is damaged: " + what); }

uint64_t whole(const value& object, const char* key) { return object.at(key).as_unsigned(key); }

// Below `end`.
size_t below(const value& given, size_t end, const char* what) {
    const uint64_t found = given.as_unsigned(what);
    if (found >= end) damaged("there is no " + std::string(what) + " " + std::to_string(found));
    return static_cast<size_t>(found);
}

uint32_t hexadecimal(const std::string& text) {
    if (text.size() != 8 || text.find_first_not_of("0123456789abcdef") != std::string::npos)
        damaged("'" + text.substr(0, 40) + "' is no checksum");
    return static_cast<uint32_t>(std::stoul(text, nullptr, 16));
}

file_description read_file(const value& files, const char* name) {
    const value& given = files.at(name);
    return {whole(given, "bytes"), hexadecimal(given.at("crc32").as_string("crc32"))};
}

class reader {
public:
    explicit reader(const value& root)
        : root_(root), made_{{}, {}, {}, {}, 0, {}, {}, {}, {}, {}, {}, {}, {}, {}, size_program(root.at("sizes"))} {}

    document read() {
        made_.description = root_.at("made_by").as_string("made_by");
        made_.uuid = root_.at("xclbin").as_string("xclbin");
        const value& files = root_.at("files");
        made_.commands = read_file(files, "commands.bin");
        made_.weights = read_file(files, "weights.bin");
        made_.packed_bytes = whole(root_, "packed_bytes");
        if (made_.packed_bytes > made_.weights.bytes || made_.packed_bytes % BEAT_BYTES)
            damaged("packed weights that are not in weights.bin");
        for (const value& given : root_.at("kernels").as_array("kernels")) made_.kernels.push_back(kernel(given));
        for (const value& given : root_.at("values").as_array("values"))
            made_.values.push_back({type(given.at("dtype")), count(given.at("elements"))});
        defined_.resize(made_.values.size());
        std::vector<size_t> ranks;
        for (const value& given : root_.at("inputs").as_array("inputs")) {
            made_.inputs.push_back(port(given));
            const view_description& view = made_.inputs.back().view;
            if (view.value != ranks.size()) damaged("inputs are not the first values");
            define(view.value);
            ranks.push_back(view.shape.size());
        }
        made_.sizes.check(ranks);
        for (const value& given : root_.at("constants").as_array("constants")) constant(given);
        for (const value& given : root_.at("generated").as_array("generated")) generated(given);
        read_launches();
        for (const value& given : root_.at("outputs").as_array("outputs")) {
            made_.outputs.push_back(port(given));
            use(made_.outputs.back().view);
        }
        for (const value& given : root_.at("guards").as_array("guards")) made_.guards.push_back(guard(given));
        return std::move(made_);
    }

private:
    static const dtype_info* type(const value& given) {
        const std::string& name = given.as_string("dtype");
        const dtype_info* found = dtype_of(name);
        if (!found) damaged("there is no dtype '" + name.substr(0, 40) + "'");
        return found;
    }

    number count(const value& given) const { return read_number(given, made_.sizes.count()); }

    std::vector<number> numbers(const value& given, const char* what) const {
        std::vector<number> result;
        for (const value& one : given.as_array(what)) result.push_back(count(one));
        if (result.size() > FD_MAX_RANK) damaged("a tensor of " + std::to_string(result.size()) + " dimensions");
        return result;
    }

    view_description view(const value& given) const {
        view_description made{below(given.at("value"), made_.values.size(), "value"), count(given.at("offset")),
                              numbers(given.at("shape"), "shape"), numbers(given.at("strides"), "strides")};
        if (made.shape.size() != made.strides.size()) damaged("a tensor with more sizes than strides, or fewer");
        return made;
    }

    port_description port(const value& given) const { return {given.at("name").as_string("name"), view(given)}; }

    slot_description slot(const value& given) const {
        slot_description made{view(given), numbers(given.at("slot_strides"), "slot_strides"), count(given.at("place"))};
        if (made.strides.size() != made.view.shape.size()) damaged("a slot with more sizes than strides, or fewer");
        return made;
    }

    void define(size_t index) {
        if (defined_[index]) damaged("value " + std::to_string(index) + " is made twice");
        defined_[index] = true;
    }

    void use(const view_description& read) const {
        if (!defined_[read.value]) damaged("value " + std::to_string(read.value) + " is read before it is made");
    }

    void constant(const value& given) {
        const constant_description made{below(given.at("value"), made_.values.size(), "value"), whole(given, "offset"),
                                        whole(given, "bytes")};
        const value_description& about = made_.values[made.value];
        const bool fits = made.offset <= made_.weights.bytes && made.bytes <= made_.weights.bytes - made.offset;
        const auto elements = static_cast<uint64_t>(about.elements.constant);
        if (!fits || !about.elements.is_constant() || elements > made.bytes ||
            elements * about.type->bytes() > made.bytes || made.offset % BEAT_BYTES)
            damaged("a constant that is not in weights.bin");
        define(made.value);
        made_.constants.push_back(made);
    }

    void generated(const value& given) {
        generated_description made{below(given.at("value"), made_.values.size(), "value"), false, {}, {}, 0};
        const element kind = made_.values[made.value].type->kind;
        made.fill = given.find("bits") != nullptr;
        if (made.fill) {
            const std::string& bits = given.at("bits").as_string("bits");
            if (bits.size() != 16 || bits.find_first_not_of("0123456789abcdef") != std::string::npos)
                damaged("'" + bits.substr(0, 40) + "' is no element");
            made.bits = std::stoull(bits, nullptr, 16);
        } else {
            made.first = count(given.at("first"));
            made.step = count(given.at("step"));
            if (kind != element::int64 && kind != element::int32) damaged("a sequence of other numbers than integers");
        }
        define(made.value);
        made_.generated.push_back(made);
    }

    // Launches and copies in the order in which they run: either may read a value that the other has written.
    void read_launches() {
        const auto& launches = root_.at("launches").as_array("launches");
        const auto& copies = root_.at("copies").as_array("copies");
        for (size_t next = 0;;) {
            for (; next < copies.size(); ++next) {
                const size_t after = below(copies[next].at("after"), launches.size() + 1, "after");
                if (after < made_.launches.size()) damaged("copies that are not in order");
                if (after > made_.launches.size()) break;
                made_.copies.push_back(copy(copies[next], after));
            }
            if (made_.launches.size() == launches.size()) break;
            made_.launches.push_back(launch(launches[made_.launches.size()]));
        }
    }

    copy_description copy(const value& given, size_t after) {
        copy_description made{after, view(given.at("from")), view(given.at("to"))};
        if (made.from.shape.size() != made.to.shape.size() ||
            made_.values[made.from.value].type != made_.values[made.to.value].type)
            damaged("a copy of another dtype or rank");
        use(made.from);
        define(made.to.value);
        return made;
    }

    static kernel_description kernel(const value& given) {
        static const std::pair<const char*, role> roles[] = {
            {"commands", role::commands}, {"count", role::count}, {"arena", role::arena}, {"weights", role::weights}};
        kernel_description made{given.at("name").as_string("name"), {}, {}};
        for (const value& one : given.at("arguments").as_array("arguments")) {
            const std::string& name = one.as_string("argument");
            const auto* found = std::find_if(std::begin(roles), std::end(roles),
                                             [&](const auto& known) { return name == known.first; });
            if (found == std::end(roles)) damaged("there is no argument '" + name.substr(0, 40) + "'");
            made.arguments.push_back(found->second);
        }
        for (const auto& [name, wanted] : roles)
            if (std::find(made.arguments.begin(), made.arguments.end(), wanted) == made.arguments.end())
                damaged("kernel '" + made.name + "' has no argument for " + name);
        for (const value& one : given.at("units").as_array("units")) made.units.push_back(one.as_string("unit"));
        if (made.units.empty()) damaged("kernel '" + made.name + "' has no compute unit");
        return made;
    }

    launch_description launch(const value& given) {
        launch_description made{};
        made.name = given.at("name").as_string("name");
        made.kernel = below(given.at("kernel"), made_.kernels.size(), "kernel");
        made.first = whole(given, "first");
        made.words = whole(given, "words");
        const uint64_t available = made_.commands.bytes / sizeof(uint32_t), commands = whole(given, "commands");
        const uint64_t of_each = whole(root_, "command_words");
        if (made.first > available || made.words > available - made.first || made.words == 0 || of_each == 0 ||
            of_each > made.words || commands > made.words / of_each)
            damaged("commands of launch '" + made.name + "' that are not in commands.bin");
        made.count = static_cast<uint32_t>(commands);
        made.beats = count(given.at("beats"));
        for (const value& one : given.at("patches").as_array("patches")) {
            const auto& pair = one.as_array("patch");
            if (pair.size() != 2) damaged("a patch needs a word and a size");
            made.patches.emplace_back(below(pair[0], static_cast<size_t>(made.words), "word"), count(pair[1]));
        }
        for (const value& one : given.at("reads").as_array("reads")) {
            made.reads.push_back(slot(one));
            use(made.reads.back().view);
        }
        for (const value& one : given.at("writes").as_array("writes")) {
            made.writes.push_back(slot(one));
            define(made.writes.back().view.value);
        }
        return made;
    }

    size_guard guard(const value& given) const {
        static const std::pair<const char*, relation> relations[] = {
            {"==", relation::equal}, {"!=", relation::unequal}, {">", relation::greater}, {">=", relation::at_least}};
        const std::string& name = given.at("relation").as_string("relation");
        const auto* found = std::find_if(std::begin(relations), std::end(relations),
                                         [&](const auto& known) { return name == known.first; });
        if (found == std::end(relations)) damaged("there is no relation '" + name.substr(0, 40) + "'");
        return {count(given.at("size")), found->second, given.at("says").as_string("says")};
    }

    const value& root_;
    document made_;
    std::vector<bool> defined_;
};

// The checksum is that of the text with zeros in the place of its own digits, which are at the same place in each file.
void check_text(std::string_view text) {
    constexpr std::string_view BEGIN = "{\"crc32\": \"", NOTHING = "00000000";
    if (text.substr(0, BEGIN.size()) != BEGIN || text.size() < BEGIN.size() + NOTHING.size())
        throw invalid_model("model.json is no exported model: it must begin with " + std::string(BEGIN));
    const uint32_t expected = hexadecimal(std::string(text.substr(BEGIN.size(), NOTHING.size())));
    uint32_t found = crc32(BEGIN.data(), BEGIN.size());
    found = crc32(NOTHING.data(), NOTHING.size(), found);
    const std::string_view rest = text.substr(BEGIN.size() + NOTHING.size());
    if (crc32(rest.data(), rest.size(), found) != expected)
        throw invalid_model("model.json is damaged: its checksum is another; export the model again");
}

// Before anything else is read, as all else may be otherwise in another version.
void check_version(const value& root) {
    if (root.at("format").as_string("format") != "fpga_dynamo model")
        throw invalid_model("model.json is no exported model: its format is '" +
                            root.at("format").as_string("format").substr(0, 40) + "'");
    const uint64_t version = whole(root, "version");
    if (version != FORMAT_VERSION)
        throw invalid_model("the model has format version " + std::to_string(version) + ", and this library reads " +
                            std::to_string(FORMAT_VERSION) + "; " +
                            (version > FORMAT_VERSION ? "build the run-time library of the model's directory"
                                                      : "export the model again"));
}

}  // namespace

const dtype_info* dtype_of(const std::string& name) {
    const auto* found = std::find_if(DTYPES.begin(), DTYPES.end(),
                                     [&](const dtype_info& one) { return name == one.name; });
    return found == DTYPES.end() ? nullptr : found;
}

const dtype_info* dtype_of(fd_dtype code) {
    const auto* found = std::find_if(DTYPES.begin(), DTYPES.end(),
                                     [&](const dtype_info& one) { return code == one.code; });
    return found == DTYPES.end() ? nullptr : found;
}

document read_document(std::string_view text) {
    try {
        check_text(text);
        const value root = card_model::json::parse(text);
        check_version(root);
        return reader(root).read();
    } catch (const card_model::error& error) {  // of the JSON reader
        damaged(error.what());
    }
}

}  // namespace fd
