// Stands in for the header of Vitis HLS, by which a source has the names of fixed-point types, too.
#pragma once
#include "ap_fixed.h"
#include "ap_integers.hpp"
