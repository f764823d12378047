// Stands in for the header of Vitis HLS.
#pragma once
#ifndef __FLT16_MAX__
#error "this compiler has no _Float16 for `half`: g++ has it from 12 on for x86-64, from 13 on for others"
#endif
typedef _Float16 half;
