"""Reductions, and what is made of several."""
