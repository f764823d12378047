"""Compilers: g++ or clang++ for the emulator, Vitis' v++ for hardware and its emulation."""
