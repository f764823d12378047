#include "bindings.hpp"

NB_MODULE(_native, module) {
    module.doc() = "The software card under pyxrt's names; see _native.pyi.";
    bind_errors(module);
    bind_enums(module);
    bind_device(module);
    bind_buffer(module);
    bind_kernel(module);
    bind_fingerprint(module);
}
