"""A core of one's own, from HLS C++ to torch.compile. The story is told in docs/writing-a-kernel.md."""
