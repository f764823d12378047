#include "exported_model.hpp"

#include <algorithm>

#include "checksum.hpp"
#include "copy_strided.hpp"
#include "model_error.hpp"

namespace fd {

namespace {

constexpr size_t BOUND_SIZES = 32;  // sets of sizes whose command lists stay on the card
constexpr int64_t CHANGES = -1;     // a size that does

std::string text_of(const std::vector<int64_t>& shape) {
    std::string text = "(";
    for (size_t i = 0; i < shape.size(); ++i)
        text += (i ? ", " : "") + (shape[i] == CHANGES ? std::string("any") : std::to_string(shape[i]));
    return text + ")";
}

void check_file(const mapped_file& file, const file_description& expected, bool content) {
    if (file.bytes() != expected.bytes)
        throw invalid_model("'" + file.path() + "' has " + std::to_string(file.bytes()) + " bytes instead of " +
                            std::to_string(expected.bytes) + ": it is truncated, or of another model");
    if (content && crc32(file.data(), file.bytes()) != expected.crc32)
        throw invalid_model("'" + file.path() + "' is damaged: its checksum is another; export the model again");
}

// One tensor of a call: dtype, dimensions and sizes as the model has them, strides that are possible.
void check_tensor(const fd_tensor& given, const model::port& wanted, const std::string& who) {
    if (given.dtype != wanted.type->code) {
        const dtype_info* found = dtype_of(given.dtype);
        throw invalid_argument(who + " must be " + wanted.type->name + ", not " +
                               (found ? found->name : "dtype " + std::to_string(given.dtype)));
    }
    if (given.rank != static_cast<int32_t>(wanted.shape.size()))
        throw invalid_argument(who + " must have " + std::to_string(wanted.shape.size()) + " dimensions, not " +
                               std::to_string(given.rank));
    if (given.rank > 0 && !given.shape) throw invalid_argument(who + " has no shape");
    const std::vector<int64_t> shape(given.shape, given.shape + given.rank);
    for (size_t i = 0; i < shape.size(); ++i)
        if (shape[i] < 0 || (wanted.shape[i] != CHANGES && wanted.shape[i] != shape[i]))
            throw invalid_argument(who + " must have shape " + text_of(wanted.shape) + ", not " + text_of(shape));
    const int64_t count = elements_of(shape);
    if (count < 0) throw invalid_argument(who + " has too many elements: shape " + text_of(shape));
    if (given.strides) {
        const std::vector<int64_t> strides(given.strides, given.strides + given.rank);
        if (span_of(shape, strides) < 0) throw invalid_argument(who + " has a negative stride, or a too large one");
    }
}

std::vector<int64_t> strides_of(const fd_tensor& given, const std::vector<int64_t>& shape) {
    if (!given.strides) return row_major(shape);
    return {given.strides, given.strides + given.rank};
}

void check_data(const fd_tensor& given, const std::vector<int64_t>& shape, const std::string& who) {
    if (!given.data && elements_of(shape) > 0) throw invalid_argument(who + " has no data: the pointer is null");
}

std::string name_of(const char* what, const model::port& port) { return std::string(what) + " '" + port.name + "'"; }

void check_count(const char* what, size_t given, size_t wanted, const void* tensors) {
    if (given != wanted)
        throw invalid_argument("the model has " + std::to_string(wanted) + " " + what + ", and " +
                               std::to_string(given) + " were given");
    if (wanted && !tensors) throw invalid_argument("the pointer to the " + std::string(what) + " is null");
}

}  // namespace

model::model(const std::string& directory, const open_options& options)
    : timeout_ms_(options.timeout_ms), document_([&] {
          const mapped_file text(directory + "/model.json");
          return read_document(text.text());
      }()) {
    commands_ = std::make_unique<mapped_file>(directory + "/commands.bin");
    check_file(*commands_, document_.commands, true);
    const std::string xclbin = directory + "/model.xclbin";
    device_ = options.open ? options.open(xclbin, document_.uuid) : open_device(xclbin, document_.uuid, options.device);
    inputs_ = ports(document_.inputs);
    outputs_ = ports(document_.outputs);
    weights_ = read_weights(directory + "/weights.bin", options.check_weights);
    const auto changes = [](const port& one) {
        return std::find(one.shape.begin(), one.shape.end(), CHANGES) != one.shape.end();
    };
    if (std::none_of(inputs_.begin(), inputs_.end(), changes)) {  // so that what is wrong is found now
        shapes sizes;
        for (const port& one : inputs_) sizes.push_back(one.shape);
        bound_for(sizes);
    }
}

std::vector<model::port> model::ports(const std::vector<port_description>& given) const {
    const auto known = [](const std::vector<number>& numbers) {
        std::vector<int64_t> result;
        for (const number& one : numbers) result.push_back(one.is_constant() ? one.constant : CHANGES);
        return result;
    };
    std::vector<port> result;
    for (const port_description& one : given)
        result.push_back(
            {one.name, document_.values[one.view.value].type, known(one.view.shape), known(one.view.strides)});
    return result;
}

std::shared_ptr<const model::weights> model::read_weights(const std::string& path, bool checked) const {
    auto made = std::make_shared<weights>();
    const auto file = std::make_shared<mapped_file>(path);
    check_file(*file, document_.weights, checked);
    if (!document_.launches.empty()) {
        const kernel_description& kernel = document_.kernels[document_.launches.front().kernel];
        // Of a model without packed weights the argument has to be set all the same.
        made->packed = device_->allocate(kernel, role::weights, std::max(document_.packed_bytes, BEAT_BYTES));
        if (document_.packed_bytes) made->packed->write(file->data(), document_.packed_bytes, 0);
    }
    file->forget();  // the card has a copy of its own
    made->constants.resize(document_.values.size());
    for (const constant_description& one : document_.constants) made->constants[one.value] = file->data() + one.offset;
    made->file = file;
    return made;
}

void model::load_weights(const std::string& path) {
    const auto fresh = read_weights(path, false);  // whose checksum is its own
    std::lock_guard lock(mutex_);
    weights_ = fresh;
}

std::shared_ptr<const bound_model> model::bound_for(const shapes& sizes) {
    registers values = document_.sizes.evaluate(sizes);
    {
        std::lock_guard lock(mutex_);
        for (auto at = bound_.begin(); at != bound_.end(); ++at)
            if ((*at)->sizes == values) {
                bound_.splice(bound_.begin(), bound_, at);
                return bound_.front();
            }
    }
    for (const size_guard& guard : document_.guards)
        if (!guard.holds(values))
            throw invalid_argument("the model was exported for inputs with " + guard.says +
                                   ", which does not hold for these; export it with an example of such sizes");
    auto fresh = bind_sizes(document_, std::move(values), commands_->data(), *device_);
    std::lock_guard lock(mutex_);
    bound_.push_front(fresh);
    if (bound_.size() > BOUND_SIZES) bound_.pop_back();
    return fresh;
}

shapes model::check_inputs(const fd_tensor* given, size_t count) const {
    check_count("inputs", count, inputs_.size(), given);
    shapes sizes;
    for (size_t i = 0; i < count; ++i) {
        check_tensor(given[i], inputs_[i], name_of("input", inputs_[i]));
        sizes.emplace_back(given[i].shape, given[i].shape + given[i].rank);
    }
    return sizes;
}

std::vector<model::layout> model::output_layouts(const std::vector<fd_tensor>& inputs) {
    const auto bound = bound_for(check_inputs(inputs.data(), inputs.size()));
    std::vector<layout> result;
    for (const bound_view& view : bound->outputs) result.push_back({view.shape, view.strides});
    return result;
}

void model::run(const fd_tensor* inputs, size_t input_count, const fd_tensor* outputs, size_t output_count) {
    const shapes sizes = check_inputs(inputs, input_count);
    check_count("outputs", output_count, outputs_.size(), outputs);
    const auto bound = bound_for(sizes);
    std::vector<call_tensor> from, to;
    for (size_t i = 0; i < input_count; ++i) {
        const bound_view& view = bound->inputs[i];
        const std::string who = name_of("input", inputs_[i]);
        if (view.shape != sizes[i])  // two sizes of the model that must be the same
            throw invalid_argument(who + " must have shape " + text_of(view.shape) + " beside the other inputs, not " +
                                   text_of(sizes[i]));
        check_data(inputs[i], view.shape, who);
        from.push_back({inputs[i].data, strides_of(inputs[i], view.shape)});
    }
    for (size_t k = 0; k < output_count; ++k) {
        const bound_view& view = bound->outputs[k];
        const std::string who = name_of("output", outputs_[k]);
        check_tensor(outputs[k], {outputs_[k].name, outputs_[k].type, view.shape, {}}, who);
        check_data(outputs[k], view.shape, who);
        to.push_back({outputs[k].data, strides_of(outputs[k], view.shape)});
    }
    std::shared_ptr<const weights> used;
    {
        std::lock_guard lock(mutex_);
        used = weights_;
    }
    auto state = take_state();
    // A state that a failed launch leaves is let go of: the next call begins with fresh memory.
    state->run(*bound, used->packed, used->constants, from, to, timeout_ms_);
    give_state(std::move(state));
}

std::unique_ptr<call_state> model::take_state() {
    std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
        auto state = std::move(idle_.back());
        idle_.pop_back();
        return state;
    }
    return std::make_unique<call_state>(document_, *device_, states_++);
}

void model::give_state(std::unique_ptr<call_state> state) {
    std::lock_guard lock(mutex_);
    idle_.push_back(std::move(state));
}

}  // namespace fd
