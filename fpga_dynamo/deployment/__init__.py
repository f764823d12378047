"""Models as directories that run without Python: `export` writes one, `load` opens one in a process with PyTorch."""
