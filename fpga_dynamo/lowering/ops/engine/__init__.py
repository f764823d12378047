"""Operators on the hardware engine: what int8 and floating point have in common, and those of floating point.

Those of int8 that are cores' operators too stand with these, in `quantised`.
"""
