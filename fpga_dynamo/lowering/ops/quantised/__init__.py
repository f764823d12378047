"""Operators of quantised graphs that compute with 8-bit integers.

What is refused here is computed in float32, between a dequantising and a quantising command.
"""
