// The backend "FpgaBackend" of executorch's runtime: parts of a model on the card, by the C API of exported models.
//
// A part's own bytes name its files, and the program has their contents as named data (backend.py). The C API opens a
// directory, so `init` writes them to one of its own and deletes it once the model is open.
#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/core/exec_aten/util/tensor_util.h>
#include <executorch/runtime/platform/log.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <sstream>
#include <string>
#include <vector>

#include "fd_model.h"

namespace {

namespace et = ::executorch::runtime;
using et::Error;
using executorch::aten::ScalarType;
using executorch::aten::SizesType;
using executorch::aten::Tensor;

// Deleted with all files in it.
class private_directory {
public:
    private_directory() {
        const char* base = getenv("TMPDIR");
        path_ = std::string(base && *base ? base : "/tmp") + "/fpga_dynamo.XXXXXX";
        if (!mkdtemp(path_.data())) path_.clear();
    }
    private_directory(const private_directory&) = delete;
    private_directory& operator=(const private_directory&) = delete;
    ~private_directory() {
        for (const std::string& file : files_) unlink(file.c_str());
        if (!path_.empty()) rmdir(path_.c_str());
    }
    const std::string& path() const { return path_; }

    bool write(const std::string& name, const void* data, size_t bytes) {
        files_.push_back(path_ + "/" + name);
        FILE* file = fopen(files_.back().c_str(), "wbx");
        if (!file) return false;
        const bool whole = fwrite(data, 1, bytes, file) == bytes;
        return (fclose(file) == 0) && whole;
    }

private:
    std::string path_;
    std::vector<std::string> files_;
};

Error error_of(fd_status status) {
    switch (status) {
        case FD_OK: return Error::Ok;
        case FD_INVALID_ARGUMENT: return Error::InvalidArgument;
        case FD_INVALID_MODEL: return Error::DelegateInvalidCompatibility;
        case FD_OUT_OF_MEMORY: return Error::MemoryAllocationFailed;
        default: return Error::Internal;
    }
}

Error failed(const char* what, fd_status status) {
    ET_LOG(Error, "FpgaBackend: %s: %s", what, fd_last_error());
    return error_of(status);
}

fd_dtype dtype_of(ScalarType type) {
    switch (type) {
        case ScalarType::Float: return FD_FLOAT32;
        case ScalarType::Half: return FD_FLOAT16;
        case ScalarType::BFloat16: return FD_BFLOAT16;
        case ScalarType::Long: return FD_INT64;
        case ScalarType::Int: return FD_INT32;
        case ScalarType::Char: return FD_INT8;
        case ScalarType::Byte: return FD_UINT8;
        case ScalarType::Bool: return FD_BOOL;
        case ScalarType::ComplexFloat: return FD_COMPLEX64;
        default: return static_cast<fd_dtype>(0);  // which no input of a model has
    }
}

// A tensor of executorch as the C API describes it.
struct described {
    std::vector<int64_t> shape, strides;
    fd_tensor tensor;
};

bool describe(const et::EValue& value, described& result) {
    if (!value.isTensor()) return false;
    const Tensor& given = value.toTensor();
    result.shape.assign(given.sizes().begin(), given.sizes().end());
    result.strides.assign(given.strides().begin(), given.strides().end());
    result.tensor = {dtype_of(given.scalar_type()), static_cast<int32_t>(given.dim()), result.shape.data(),
                     result.strides.data(), given.mutable_data_ptr()};
    return true;
}

// One file of the part, from the program's named data.
Error write_file(const et::NamedDataMap& data, const std::string& name, const std::string& key,
                 private_directory& directory) {
    if (name.find('/') != std::string::npos) return Error::InvalidProgram;
    auto found = data.get_data(key.c_str());
    if (!found.ok()) {
        ET_LOG(Error, "FpgaBackend: the program has no data '%s' for '%s'", key.c_str(), name.c_str());
        return found.error();
    }
    const bool written = directory.write(name, found->data(), found->size());
    found->Free();
    if (written) return Error::Ok;
    ET_LOG(Error, "FpgaBackend: '%s/%s' cannot be written: %s; set TMPDIR to a directory with more room",
           directory.path().c_str(), name.c_str(), strerror(errno));
    return Error::AccessFailed;
}

class fpga_backend final : public et::BackendInterface {
public:
    bool is_available() const override { return true; }

    et::Result<et::DelegateHandle*> init(et::BackendInitContext& context, et::FreeableBuffer* processed,
                                         et::ArrayRef<et::CompileSpec> specs) const override {
        private_directory directory;
        if (directory.path().empty()) {
            ET_LOG(Error, "FpgaBackend: no directory can be made in $TMPDIR or /tmp: %s", strerror(errno));
            return Error::AccessFailed;
        }
        if (const Error error = write_files(context, *processed, directory); error != Error::Ok) return error;
        processed->Free();
        fd_options options{sizeof options, number(specs, "device", 0), number(specs, "timeout_ms", 60000), 1};
        fd_model* model = nullptr;
        const fd_status status = fd_model_open(directory.path().c_str(), &options, &model);
        if (status != FD_OK) return failed("a part cannot be opened", status);
        return model;
    }

    Error execute(et::BackendExecutionContext&, et::DelegateHandle* handle, et::Span<et::EValue*> args) const override {
        fd_model* model = static_cast<fd_model*>(handle);
        const size_t inputs = fd_model_input_count(model), outputs = fd_model_output_count(model);
        if (args.size() != inputs + outputs) {
            ET_LOG(Error, "FpgaBackend: a part has %zu inputs and %zu outputs, and was given %zu values", inputs,
                   outputs, args.size());
            return Error::InvalidProgram;
        }
        std::vector<described> values(args.size());
        std::vector<fd_tensor> tensors;
        for (size_t i = 0; i < args.size(); ++i) {
            if (i >= inputs)
                if (const Error error = resize(model, tensors, i - inputs, *args[i]); error != Error::Ok) return error;
            if (!describe(*args[i], values[i])) {
                ET_LOG(Error, "FpgaBackend: value %zu of a part is no tensor", i);
                return Error::InvalidType;
            }
            tensors.push_back(values[i].tensor);
        }
        const fd_status status = fd_model_run(model, tensors.data(), inputs, tensors.data() + inputs, outputs);
        return status == FD_OK ? Error::Ok : failed("a launch", status);
    }

    void destroy(et::DelegateHandle* handle) const override { fd_model_close(static_cast<fd_model*>(handle)); }

private:
    static Error write_files(et::BackendInitContext& context, const et::FreeableBuffer& processed,
                             private_directory& directory) {
        const et::NamedDataMap* data = context.get_named_data_map();
        if (!data) {
            ET_LOG(Error, "FpgaBackend: the program was loaded without its named data");
            return Error::InvalidProgram;
        }
        std::istringstream lines(std::string(static_cast<const char*>(processed.data()), processed.size()));
        for (std::string name, key; lines >> name >> key;)
            if (const Error error = write_file(*data, name, key, directory); error != Error::Ok) return error;
        return Error::Ok;
    }

    // The number of a compile spec, which is one in decimal digits.
    static uint32_t number(et::ArrayRef<et::CompileSpec> specs, const char* key, uint32_t otherwise) {
        for (const et::CompileSpec& spec : specs)
            if (!strcmp(spec.key, key)) {
                const std::string digits(static_cast<const char*>(spec.value.buffer), spec.value.nbytes);
                return static_cast<uint32_t>(strtoul(digits.c_str(), nullptr, 10));
            }
        return otherwise;
    }

    // Gives output `index` its size in this call, if sizes change from call to call.
    static Error resize(fd_model* model, const std::vector<fd_tensor>& inputs, size_t index, et::EValue& output) {
        fd_port port;
        if (const fd_status status = fd_model_output(model, index, &port); status != FD_OK)
            return failed("an output", status);
        bool changes = false;
        for (int32_t d = 0; d < port.rank; ++d) changes |= port.shape[d] < 0;
        if (!changes || !output.isTensor()) return Error::Ok;
        int64_t shape[FD_MAX_RANK];
        const size_t count = fd_model_input_count(model);
        if (const fd_status status = fd_model_output_shape(model, inputs.data(), count, index, shape); status != FD_OK)
            return failed("the shape of an output", status);
        const std::vector<SizesType> sizes(shape, shape + port.rank);
        return et::resize_tensor(output.toTensor(), {sizes.data(), sizes.size()});
    }
};

fpga_backend instance;
const Error registered = et::register_backend({"FpgaBackend", &instance});

}  // namespace

// Whether executorch has accepted the backend: 0, or the number of its error.
extern "C" __attribute__((visibility("default"))) uint32_t fpga_backend_registered() {
    return static_cast<uint32_t>(registered);
}
