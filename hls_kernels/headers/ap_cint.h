// Stands in for the header of Vitis HLS, whose names of integers of other widths than C's, such as int7, ap_int.h replaces.
#pragma once
#include "ap_int.h"
