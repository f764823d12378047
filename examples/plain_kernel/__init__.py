"""A plain Vitis HLS kernel on the emulator, driven by pyxrt's calls."""
