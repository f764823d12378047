// Stands in for a part of the header of Vitis HLS while loops are checked.
#pragma once
#include "ap_int.h"
