// Stands in for the header of Vitis HLS: `ap_wait` by its older name.
#pragma once
#include "../ap_utils.h"
