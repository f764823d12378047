"""Operators on the hardware engine: of int8, of floating point, and what both have in common."""
