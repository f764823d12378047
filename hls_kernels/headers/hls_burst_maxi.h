// Stands in for the header of Vitis HLS on the emulator: the simulator's port, which checks what is asked for.
#pragma once
#include "sim/hls_burst_maxi.h"
