"""Passes that rewrite the traced module before patterns are asked."""
