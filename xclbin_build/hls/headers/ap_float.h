// Stands in for the header of Vitis HLS while loops are checked. No report of its types' operators is known: a source may
// include it, one that uses them is refused.
#pragma once
#include "ap_int.h"
