"""matplotlib, which only pictures need: whoever draws imports it from here.

Raises :class:`FpgaError` on import where matplotlib is missing. May import `errors`.
"""

from fpga_dynamo.errors import FpgaError

try:
    from matplotlib import colormaps, rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
except ImportError as error:
    raise FpgaError(
        f"pictures need matplotlib, which cannot be imported ({error}): pip install 'fpga_dynamo[plot]'"
    ) from error

__all__ = ["Figure", "FigureCanvasAgg", "Line2D", "Patch", "colormaps", "rc_context"]
