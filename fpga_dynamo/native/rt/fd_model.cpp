#include "fd_model.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "error.hpp"
#include "exported_model.hpp"
#include "model_error.hpp"

struct fd_model {
    fd::model opened;
};

namespace {

thread_local std::string last_error;

fd_status failed(fd_status status, const char* sentence) {
    try {
        last_error = sentence;
    } catch (const std::bad_alloc&) {
        last_error.clear();
    }
    return status;
}

// Runs `work`, and makes of whatever it throws a status and a sentence.
template <typename Work>
fd_status guarded(Work&& work) {
    try {
        work();
        return FD_OK;
    } catch (const fd::model_error& error) {
        return failed(error.status(), error.what());
    } catch (const card_model::xclbin_error& error) {
        return failed(FD_INVALID_MODEL, error.what());
    } catch (const card_model::out_of_memory& error) {
        return failed(FD_OUT_OF_MEMORY, error.what());
    } catch (const std::bad_alloc&) {
        return failed(FD_OUT_OF_MEMORY, "the host has no memory left for the model");
    } catch (const std::exception& error) {
        return failed(FD_DEVICE_ERROR, error.what());
    } catch (...) {
        return failed(FD_DEVICE_ERROR, "an unknown exception");
    }
}

fd_status describe(const std::vector<fd::model::port>& ports, const char* what, size_t index, fd_port* port) {
    return guarded([&] {
        if (!port) throw fd::invalid_argument("the pointer to the port is null");
        if (index >= ports.size())
            throw fd::invalid_argument("the model has " + std::to_string(ports.size()) + " " + what +
                                       "s; there is no " + what + " " + std::to_string(index));
        const fd::model::port& found = ports[index];
        *port = {found.name.c_str(), found.type->code, static_cast<int32_t>(found.shape.size()), found.shape.data(),
                 found.strides.data()};
    });
}

fd::open_options options_from(const fd_options* given) {
    fd::open_options options;
    if (!given) return options;
    if (given->size < sizeof(fd_options)) throw fd::invalid_argument("fd_options.size must be sizeof(fd_options)");
    options.device = given->device;
    if (given->timeout_ms) options.timeout_ms = given->timeout_ms;
    options.check_weights = given->check_weights != 0;
    return options;
}

void check_model(const fd_model* model) {
    if (!model) throw fd::invalid_argument("the model is null: open it with fd_model_open");
}

}  // namespace

extern "C" {

fd_status fd_model_open(const char* directory, const fd_options* options, fd_model** model) {
    return guarded([&] {
        if (model) *model = nullptr;
        if (!directory || !model) throw fd::invalid_argument("a pointer that fd_model_open needs is null");
        *model = new fd_model{{directory, options_from(options)}};
    });
}

void fd_model_close(fd_model* model) { delete model; }

size_t fd_model_input_count(const fd_model* model) { return model ? model->opened.inputs().size() : 0; }

size_t fd_model_output_count(const fd_model* model) { return model ? model->opened.outputs().size() : 0; }

fd_status fd_model_input(const fd_model* model, size_t index, fd_port* port) {
    if (!model) return guarded([&] { check_model(model); });
    return describe(model->opened.inputs(), "input", index, port);
}

fd_status fd_model_output(const fd_model* model, size_t index, fd_port* port) {
    if (!model) return guarded([&] { check_model(model); });
    return describe(model->opened.outputs(), "output", index, port);
}

const char* fd_model_description(const fd_model* model) {
    return model ? model->opened.about().description.c_str() : "";
}

fd_status fd_model_output_shape(fd_model* model, const fd_tensor* inputs, size_t input_count, size_t index,
                                int64_t* shape) {
    return guarded([&] {
        check_model(model);
        if (!shape) throw fd::invalid_argument("the pointer to the shape is null");
        if (input_count && !inputs) throw fd::invalid_argument("the pointer to the inputs is null");
        const auto found = model->opened.output_layouts({inputs, inputs + input_count});
        if (index >= found.size())
            throw fd::invalid_argument("the model has " + std::to_string(found.size()) +
                                       " outputs; there is no output " + std::to_string(index));
        std::copy(found[index].shape.begin(), found[index].shape.end(), shape);
    });
}

fd_status fd_model_run(fd_model* model, const fd_tensor* inputs, size_t input_count, const fd_tensor* outputs,
                       size_t output_count) {
    return guarded([&] {
        check_model(model);
        model->opened.run(inputs, input_count, outputs, output_count);
    });
}

fd_status fd_model_load_weights(fd_model* model, const char* weights_file) {
    return guarded([&] {
        check_model(model);
        if (!weights_file) throw fd::invalid_argument("the name of the weights file is null");
        model->opened.load_weights(weights_file);
    });
}

const char* fd_last_error(void) { return last_error.c_str(); }

uint32_t fd_api_version(void) { return FD_API_VERSION; }

}  // extern "C"
