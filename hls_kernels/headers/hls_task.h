// Stands in for the header of Vitis HLS on the software card, which has no tasks.
#error \
    "hls::task runs for ever beside its caller, where the software card runs functions one after the other: make the tasks processes of a dataflow region (sim/dataflow.hpp)"
