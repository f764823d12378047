// Stands in for the header of Vitis HLS.
#pragma once
#include "../ap_utils.h"
