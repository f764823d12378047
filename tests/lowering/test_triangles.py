"""tril and triu: the diagonal anywhere, batches, what is infinite or NaN on the side that goes."""

from __future__ import annotations

import pytest
import torch

from tests.lowering.lowering_cases import Case, check

CASES = {
    "lower": Case(lambda x: x.tril(), (5, 7)),
    "upper, above the diagonal, of a batch": Case(lambda x: x.triu(1), (2, 3, 18, 5)),
    "upper, below the diagonal": Case(lambda x: x.triu(-2), (6, 4)),
    "lower, beyond all columns": Case(lambda x: x.tril(9), (3, 4)),
    "nothing left": Case(lambda x: x.tril(-9), (3, 4)),
    "infinite and NaN": Case(lambda x: x.tril(), torch.tensor([[1.0, torch.inf], [torch.nan, torch.nan]])),
    "truth values of a transposed matrix": Case(lambda x: (x.t() > 0).tril(), (5, 17)),
    "integers": Case(lambda x: x.tril(), torch.arange(6).view(2, 3), offload=0.0, launches=0, why="integer elements"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_one_side_of_the_diagonal_is_zero(case: Case) -> None:
    check(case)
