"""Passes of the cores: commands of a launch, bands of rows, and the memory that it uses."""
