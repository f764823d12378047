"""ATen graph -> Program; the passes, in the order that they run, are in passes/pipeline.py.

May import codegen and ir.
"""
