"""What happens to a graph while AOTAutograd traces it, and right after: what is taken apart, strides, saved values."""
