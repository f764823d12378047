"""A core of one's own, from HLS C++ to torch.compile: docs/writing-a-kernel.md and docs/writing-a-pattern.md."""
