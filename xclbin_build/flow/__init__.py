"""The flow for hardware: AMD Vitis' tools in order, from HLS sources to what a board loads."""
