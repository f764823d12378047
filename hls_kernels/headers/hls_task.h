// Stands in for the header of Vitis HLS on the emulator, which has no tasks.
#error \
    "hls::task runs for ever beside its caller, where the emulator runs functions one after the other: make the tasks processes of a dataflow region (sim/dataflow.hpp)"
