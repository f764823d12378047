"""``torch.device("fpga")``: tensors whose storage is memory of a card, as the driver gives it.

- ``autoload``: what ``import torch`` calls, so that the device has its name and its module ``torch.fpga``;
- ``module``: ``torch.fpga``, as PyTorch's other devices have one;
- ``extension``: builds and loads the C++ extension (``cpp/*.cpp``) at the first use of the device;
- ``segments``: card memory for the extension's allocator.
"""
