"""Sizes that change from call to call, as polynomials of symbols."""
