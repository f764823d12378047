"""Passes of the hardware engine: claims, launches with their commands, and these as parts of a program."""
