"""Marks of tests that `make test` leaves out and another target of the Makefile, which `.ci/run` calls, runs."""

from __future__ import annotations

import pytest

SAMPLED = (pytest.mark.slow, pytest.mark.sampled)
"""Of the benches; `make benches-sampled`."""
EXTENDED = (pytest.mark.slow, pytest.mark.extended)
"""More cases of what `make test` tests with a few; `make extended`."""
DOCUMENTATION = (pytest.mark.slow, pytest.mark.documentation)
"""Examples of pages; `make docs`."""
