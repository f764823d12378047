"""Compilers: g++ or clang++ for the software card, Vitis' v++ for hardware and its emulation."""
