// Stands in for a part of the header of Vitis HLS.
#pragma once
#include "ap_int.h"
