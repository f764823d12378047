// Stands in for the header of Vitis HLS while loops are checked: a task is its function, called once.
#pragma once
#include "hls_stream.h"

namespace hls {

struct task {
    task() = default;
    template <class F_, class... A_>
    task(F_&& body, A_&&... arguments) { body(arguments...); }
    template <class F_, class... A_>
    void operator()(F_&& body, A_&&... arguments) { body(arguments...); }
};

}  // namespace hls

#define hls_thread_local thread_local
#define HLS_TASK_STREAM hls_thread_local hls::stream
#define HLS_TASK hls_thread_local hls::task
