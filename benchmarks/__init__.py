"""How fast the emulator is next to other ways to run a model on a CPU: ``python -m benchmarks`` or ``make bench``.

Not part of the installed package and not of ``make test``: docs/benchmarks.md says how to run it and read it.
"""
