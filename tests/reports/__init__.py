"""Public bug reports of torch.compile backends, each as a small program of our own.

`python -m tests.reports` runs them under eager mode, aot_eager and fpga, and writes the table of
docs/evaluation/public-reports.md. `case.py` says what a program is, `outcome.py` how its results are compared; the
other files hold the programs by kind.
"""
