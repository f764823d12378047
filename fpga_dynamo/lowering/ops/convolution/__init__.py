"""Convolutions of one to three dimensions, and their gradients."""
