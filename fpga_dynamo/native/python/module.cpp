#include <nanobind/nanobind.h>

NB_MODULE(_native, module) { module.doc() = "The software card under pyxrt's names."; }
