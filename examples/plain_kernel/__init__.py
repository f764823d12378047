"""A plain Vitis HLS kernel on the software card, driven by pyxrt's calls."""
