"""Operators of int8 graphs on the hardware engine; ops/quantised/ has the matches of those that cores compute too."""
