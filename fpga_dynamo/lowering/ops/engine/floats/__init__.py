"""Operators of bfloat16 and float32 graphs on the hardware engine."""
