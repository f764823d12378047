"""Which ATen ops the card runs, in which dtypes, on which core, and why not the others: docs/ops.md."""

from fpga_dynamo.tools.opset.page import check_page, page
from fpga_dynamo.tools.opset.patterns import pattern_list

__all__ = ["check_page", "page", "pattern_list"]
