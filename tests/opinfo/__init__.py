"""PyTorch's own databases of samples, OpInfo and ModuleInfo, against the backend: `python -m tests.opinfo --help`."""
