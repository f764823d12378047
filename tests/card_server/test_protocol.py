"""Both servers have the operations of the protocol's one definition."""

from __future__ import annotations

from typing import Any, cast

from fpga_dynamo._native import card_protocol
from fpga_dynamo.card_server.session import Session


def test_the_python_server_has_all_operations() -> None:
    session = Session(cast(Any, None))
    assert {*session._operations, "status"} == {*card_protocol.OPERATIONS}
