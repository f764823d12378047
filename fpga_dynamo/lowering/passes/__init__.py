"""The passes from an ATen graph to a Program, in the order that pipeline.py lists."""
