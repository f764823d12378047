// Stands in for the header of Vitis HLS while loops are checked.
#pragma once
