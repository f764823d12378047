"""Operators of quantised graphs that compute with integers of eight bits.

What is refused here is computed in float32, between a dequantising and a quantising command.
"""
