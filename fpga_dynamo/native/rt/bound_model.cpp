#include "bound_model.hpp"

#include <cstring>

#include "copy_strided.hpp"
#include "model_error.hpp"

namespace fd {

namespace {

constexpr uint64_t MOST_GENERATED = uint64_t{1} << 28;  // bytes of a value that sizes alone decide
constexpr uint64_t MOST_BYTES = uint64_t{1} << 46;      // of an arena or a call's tensors, so that sums do not overflow

[[noreturn]] void damaged(const std::string& what) { throw invalid_model("model.json is damaged: " + what); }

class binder {
public:
    binder(const document& model, registers sizes, const uint8_t* words, device& on)
        : model_(model), words_(words), device_(on), made_(std::make_shared<bound_model>()) {
        made_->sizes = std::move(sizes);
    }

    std::shared_ptr<const bound_model> bind() {
        for (const value_description& value : model_.values) {
            elements_.push_back(at(value.elements, MOST_BYTES / 8));
            made_->scratch.push_back(reserve(elements_.back() * value.type->bytes()));
        }
        for (const generated_description& one : model_.generated)
            made_->generated.emplace_back(one.value, generated(one));
        for (const port_description& port : model_.inputs) made_->inputs.push_back(view(port.view));
        for (const port_description& port : model_.outputs) made_->outputs.push_back(view(port.view));
        for (const launch_description& launch : model_.launches) made_->launches.push_back(bound(launch));
        for (const copy_description& copy : model_.copies) {
            made_->copies.push_back({copy.after, view(copy.from), view(copy.to)});
            if (made_->copies.back().from.shape != made_->copies.back().to.shape) damaged("a copy of another shape");
        }
        return made_;
    }

private:
    uint64_t at(const number& given, uint64_t most) const {
        const int64_t found = given.at(made_->sizes);
        if (found < 0 || static_cast<uint64_t>(found) > most)
            damaged("a size of " + std::to_string(found) + " where 0 to " + std::to_string(most) + " is possible");
        return static_cast<uint64_t>(found);
    }

    std::vector<int64_t> all(const std::vector<number>& given) const {
        std::vector<int64_t> result;
        for (const number& one : given) result.push_back(static_cast<int64_t>(at(one, MOST_BYTES)));
        return result;
    }

    std::vector<uint8_t> generated(const generated_description& given) const {
        const size_t count = elements_[given.value], size = model_.values[given.value].type->bytes();
        if (count * size > MOST_GENERATED) throw invalid_argument("a value that the sizes decide is too large");
        std::vector<uint8_t> memory(count * size);
        const auto first = static_cast<uint64_t>(given.first.at(made_->sizes));
        const auto step = static_cast<uint64_t>(given.step.at(made_->sizes));
        for (size_t i = 0; i < count; ++i) {  // modulo 2^64, as PyTorch's integers
            const uint64_t element = given.fill ? given.bits : first + i * step;
            std::memcpy(memory.data() + i * size, &element, size);  // little-endian
        }
        return memory;
    }

    uint64_t reserve(uint64_t bytes) {
        const uint64_t place = made_->scratch_bytes;
        made_->scratch_bytes += (bytes + BEAT_BYTES - 1) / BEAT_BYTES * BEAT_BYTES;
        if (made_->scratch_bytes > MOST_BYTES) throw invalid_argument("the tensors of a call are too large");
        return place;
    }

    bound_view view(const view_description& given) const {
        const uint64_t offset = at(given.offset, MOST_BYTES);
        const size_t size = model_.values[given.value].type->bytes();
        bound_view made{given.value, offset * size, all(given.shape), all(given.strides), 0};
        const int64_t span = span_of(made.shape, made.strides), count = elements_of(made.shape);
        if (span < 0 || count < 0 || static_cast<uint64_t>(count) > MOST_BYTES / 8 ||
            static_cast<uint64_t>(span) > elements_[given.value] ||
            (span > 0 && offset > elements_[given.value] - static_cast<uint64_t>(span)))
            damaged("a tensor that lies outside of value " + std::to_string(given.value));
        made.bytes = static_cast<uint64_t>(count) * size;
        return made;
    }

    bound_slot slot_of(const slot_description& given, slot_list& list, uint64_t arena_bytes) {
        bound_slot made{view(given.view), all(given.strides), false, 0};
        const dtype_info& type = *model_.values[given.view.value].type;
        const auto count = static_cast<uint64_t>(elements_of(made.view.shape));
        const int64_t span = span_of(made.view.shape, made.strides);
        if (span < 0 || static_cast<uint64_t>(span) > count) damaged("a slot with gaps between its elements");
        const slot lies{type.kind, count, at(given.place, MOST_BYTES / BEAT_BYTES) * BEAT_BYTES};
        if (lies.bytes() > arena_bytes || lies.offset > arena_bytes - lies.bytes())
            damaged("a slot outside of its arena");
        made.copies = !same_order(made.view.shape, made.view.strides, made.strides);
        if (made.copies) made.scratch = reserve(made.view.bytes);
        list.add(lies);
        return made;
    }

    bound_launch bound(const launch_description& launch) {
        bound_launch made;
        made.arena_bytes = at(launch.beats, MOST_BYTES / BEAT_BYTES) * BEAT_BYTES;
        if (made.arena_bytes == 0) damaged("a launch without an arena");
        for (const slot_description& one : launch.reads)
            made.reads.push_back(slot_of(one, made.inputs, made.arena_bytes));
        for (const slot_description& one : launch.writes)
            made.writes.push_back(slot_of(one, made.outputs, made.arena_bytes));
        for (const bound_slot& one : made.writes)
            if (one.copies || one.view.offset != 0) damaged("a launch that writes part of a value");
        std::vector<uint32_t> words(static_cast<size_t>(launch.words));
        std::memcpy(words.data(), words_ + launch.first * sizeof(uint32_t), words.size() * sizeof(uint32_t));
        for (const auto& [word, size] : launch.patches) words[word] = static_cast<uint32_t>(size.at(made_->sizes));
        const uint64_t bytes = words.size() * sizeof(uint32_t);
        made.commands = device_.allocate(model_.kernels[launch.kernel], role::commands, bytes);
        made.commands->write(words.data(), bytes, 0);
        return made;
    }

    const document& model_;
    const uint8_t* words_;
    device& device_;
    std::vector<uint64_t> elements_;
    std::shared_ptr<bound_model> made_;
};

}  // namespace

std::shared_ptr<const bound_model> bind_sizes(const document& model, registers sizes, const uint8_t* words,
                                              device& on) {
    return binder(model, std::move(sizes), words, on).bind();
}

}  // namespace fd
