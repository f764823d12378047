"""What is on a card: its xclbin, its schedulers, the packed weights."""
