"""Operators that read or write where an index says."""
