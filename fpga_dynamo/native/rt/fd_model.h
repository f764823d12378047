/* The C API of exported models: fd_model_open opens a directory that fpga_dynamo.export wrote, fd_model_run runs the model,
 * fd_model_close frees it. Neither Python nor PyTorch is needed. main.cpp beside a model is an example, in C++.
 *
 * All functions may be called from any thread, and a model may run in several threads at once. Only fd_model_close must
 * be the last call of a model. No C++ exception leaves a function. A function that fails leaves one sentence in
 * fd_last_error() of the calling thread. */
#ifndef FD_MODEL_H
#define FD_MODEL_H

#include <stddef.h>
#include <stdint.h>

#ifndef FD_API
#define FD_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this API. A later version of the library keeps what an earlier one had. */
#define FD_API_VERSION 1u

/* Dimensions that a tensor has at most. */
#define FD_MAX_RANK 16

typedef enum fd_status {
    FD_OK = 0,
    FD_INVALID_ARGUMENT = 1, /* a null pointer, or a tensor of another number, dtype or shape than the model's */
    FD_INVALID_MODEL = 2,    /* the directory is no model, is damaged, or needs another version of this library */
    FD_DEVICE_ERROR = 3,     /* the card refused the xclbin, or a launch failed */
    FD_OUT_OF_MEMORY = 4,    /* of the card or of the host */
    FD_TIMEOUT = 5,          /* a launch took longer than the time-out, and was ended */
    FD_UNSUPPORTED_VALUE = 6 /* an input has a value that the model cannot compute with */
} fd_status;

typedef enum fd_dtype {
    FD_FLOAT32 = 1,
    FD_FLOAT16 = 2,
    FD_BFLOAT16 = 3,
    FD_INT64 = 4,
    FD_INT32 = 5,
    FD_INT8 = 6,
    FD_UINT8 = 7,
    FD_BOOL = 8, /* a byte, 0 or 1 */
    FD_COMPLEX64 = 9
} fd_dtype;

/* A tensor in the caller's memory. strides count elements; NULL is row-major order. A stride must not be negative. */
typedef struct fd_tensor {
    fd_dtype dtype;
    int32_t rank;
    const int64_t* shape;
    const int64_t* strides;
    void* data;
} fd_tensor;

/* What a model accepts or returns. The memory belongs to the model.
 * shape: -1 for a size that changes from call to call. strides: the order of elements that needs no copy: with tensors
 * in this order, a call reads and writes the caller's memory directly. They are those of the example call. */
typedef struct fd_port {
    const char* name;
    fd_dtype dtype;
    int32_t rank;
    const int64_t* shape;
    const int64_t* strides;
} fd_port;

/* size: sizeof(fd_options), so that later versions may add members. device: the index of the card.
 * timeout_ms: of one launch; 0 is 60000. check_weights: nonzero compares the checksum of weights.bin, which reads the
 * whole file. */
typedef struct fd_options {
    size_t size;
    uint32_t device;
    uint32_t timeout_ms;
    int32_t check_weights;
} fd_options;

typedef struct fd_model fd_model;

/* Opens the model in a directory; options may be NULL: device 0, 60 s, weights checked. */
FD_API fd_status fd_model_open(const char* directory, const fd_options* options, fd_model** model);
/* Frees the model; NULL is allowed. No other thread may use it. */
FD_API void fd_model_close(fd_model* model);

FD_API size_t fd_model_input_count(const fd_model* model);
FD_API size_t fd_model_output_count(const fd_model* model);
FD_API fd_status fd_model_input(const fd_model* model, size_t index, fd_port* port);
FD_API fd_status fd_model_output(const fd_model* model, size_t index, fd_port* port);
/* What the model was made from, and by which version: one sentence for people. */
FD_API const char* fd_model_description(const fd_model* model);

/* The shape of output `index` for inputs of these shapes (their data is not read). `shape` has room for FD_MAX_RANK
 * sizes. Without dynamic shapes it is that of fd_model_output. */
FD_API fd_status fd_model_output_shape(fd_model* model, const fd_tensor* inputs, size_t input_count, size_t index,
                                       int64_t* shape);

/* Runs the model: reads `inputs` and writes `outputs`, in the model's order. Returns when the results are there. */
FD_API fd_status fd_model_run(fd_model* model, const fd_tensor* inputs, size_t input_count, const fd_tensor* outputs,
                              size_t output_count);

/* Replaces the packed weights by those of another file of the same layout (same model, other parameters). Calls under
 * way end with the old ones. */
FD_API fd_status fd_model_load_weights(fd_model* model, const char* weights_file);

/* The sentence about the last function that failed in this thread; "" before the first failure. */
FD_API const char* fd_last_error(void);
/* FD_API_VERSION of the library that is loaded. */
FD_API uint32_t fd_api_version(void);

#ifdef __cplusplus
}
#endif
#endif
