"""Between torch.compile and lowering: the backend itself and what Dynamo leaves out.

May import runtime, cache and all below.
"""
