"""The one door to what is private to PyTorch: no other package names ``torch._*``, ``torch.fx.experimental`` and so on.

The lowest layer: it imports nothing else of ours. A file a subject:

- ``versions``: which versions of PyTorch are supported, and what of the running one is not as it is known; of their
  subjects ``aot``, ``frames`` and ``tensors`` say so (`differences`), and ``signatures`` compares functions;
- ``dispatch``: operators, their schemas and kernels, and the modes and tensor classes that see calls of them;
- ``tracing``: fake tensors, symbolic sizes, and tracing a graph again;
- ``layouts``: the strides that PyTorch's own rules give a result;
- ``decompositions``: what PyTorch's operators consist of;
- ``tensors``: what a tensor does not tell in public, guards on tensors, allocation;
- ``aot``: AOTAutograd's entry, and what it has found out about a graph;
- ``dynamo``: Dynamo's settings, errors and guards; ``frames``: its conversion of frames;
- ``serialization``: what PyTorch saves of compiled graphs; ``artifacts``: entries of its caches;
- ``device``: a device of one's own, its name and its storages;
- ``pytree``: nested containers as lists of leaves.
"""
