"""What lowering works on and what it makes: graphs, views, sizes, commands, Programs.

Imports nothing of ours but errors.
"""
