// An exported model that is open: its files, its card, and calls from any number of threads.
#pragma once
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "bound_model.hpp"
#include "call.hpp"
#include "document.hpp"
#include "mapped_file.hpp"

namespace fd {

struct open_options {
    unsigned device = 0;
    unsigned timeout_ms = 60000;
    bool check_weights = true;
    // Of a card that this library has no driver of: the device with the xclbin at a path loaded, whose UUID is that.
    std::function<std::shared_ptr<fd::device>(const std::string& path, const std::string& uuid)> open;
};

// All members but the destructor may be called from several threads at once, and throw model_error or another
// std::exception.
class model {
public:
    model(const std::string& directory, const open_options& options);

    const document& about() const { return document_; }
    // What an input or output looks like: sizes of -1 change from call to call.
    struct port {
        std::string name;
        const dtype_info* type;
        std::vector<int64_t> shape, strides;
    };
    const std::vector<port>& inputs() const { return inputs_; }
    const std::vector<port>& outputs() const { return outputs_; }

    // Of each output, for inputs of these shapes.
    struct layout {
        std::vector<int64_t> shape, strides;
    };
    std::vector<layout> output_layouts(const std::vector<fd_tensor>& inputs);
    void run(const fd_tensor* inputs, size_t input_count, const fd_tensor* outputs, size_t output_count);
    void load_weights(const std::string& path);

private:
    // What calls read of weights.bin: the packed part in device memory, constants where they are mapped.
    struct weights {
        std::shared_ptr<const mapped_file> file;
        std::shared_ptr<device_memory> packed;
        std::vector<const uint8_t*> constants;  // of each value, null for all other values
    };

    std::shared_ptr<const weights> read_weights(const std::string& path, bool checked) const;
    std::shared_ptr<const bound_model> bound_for(const shapes& sizes);
    shapes check_inputs(const fd_tensor* given, size_t count) const;
    std::vector<port> ports(const std::vector<port_description>& given) const;
    std::unique_ptr<call_state> take_state();
    void give_state(std::unique_ptr<call_state> state);

    const unsigned timeout_ms_;
    document document_;
    std::unique_ptr<mapped_file> commands_;
    std::shared_ptr<device> device_;
    std::vector<port> inputs_, outputs_;

    std::mutex mutex_;  // of all below
    std::shared_ptr<const weights> weights_;
    std::list<std::shared_ptr<const bound_model>> bound_;  // the latest first
    std::vector<std::unique_ptr<call_state>> idle_;
    size_t states_ = 0;
};

}  // namespace fd
