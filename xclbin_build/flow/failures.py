"""What went wrong in a step of the flow, as one sentence: from the exit status and the log of the tool."""

from __future__ import annotations

import re
from pathlib import Path

from ..trusted_path import printable

_ERROR = re.compile(r"^\s*(?:ERROR|FATAL)\b:?\s*(.*)$", re.MULTILINE)
_TIMING = re.compile(
    r"did not meet timing|failed? to meet timing|timing (?:requirements|constraints) (?:are|were) not met", re.I
)
_SLACK = re.compile(r"(?:WNS|worst negative slack)\W*(-\d+(?:\.\d+)?)", re.I)
_SCALED = re.compile(r"frequency is being automatically changed to (\d+(?:\.\d+)?) MHz", re.I)
_KNOWN = (
    (r"licen[sc]e|FLEXnet|FlexLM", "get a license for the part, and set XILINXD_LICENSE_FILE"),
    (r"No valid platform|platform .* (?:was )?not found|60-1258|82-1033", "install the platform's files, set "
     "PLATFORM_REPO_PATHS to their folder, or give --platform a .toml whose 'xsa' is the path of the .xpfm"),
    (r"No space left on device", "free space on the disk"),
    (r"(?:out of|insufficient|not enough) memory|std::bad_alloc", "close other programs or use a machine with more "
     "memory"),
    (r"over-?utili[sz]ed|utilization exceeds|place design.*(?:requires|unplaced)|DRC UTLZ",
     "build fewer compute units or a smaller recipe; xclbin-build estimate shows the resources"),
)  # fmt: skip
_LENGTH = 300
RESUMES = "afterwards run the same command again: finished steps are kept"


def sentence(step: str, status: int, text: str, log: Path) -> str:
    """Why a step failed, what to do, and where its log is. status: below 0, the signal that ended the tool."""
    where = f"the log is {printable(log)}"
    if status < 0 or status in (130, 137, 143):
        signal = -status if status < 0 else status - 128
        return f"the step '{step}' was ended by signal {signal}; run the same command again: finished steps are kept."
    if _TIMING.search(text):
        slack = _SLACK.search(text)
        by = f" by {slack[1].removeprefix('-')} ns" if slack else ""
        return (
            f"the step '{step}' failed, since the design does not meet timing{by}; give a lower --clock, or fewer "
            f"compute units; {where}."
        )
    said = next((match[1].strip() for match in _ERROR.finditer(text) if match[1].strip()), "")
    remedy = next((what for pattern, what in _KNOWN if re.search(pattern, text, re.I)), "mend what it names")
    if not said:
        last = [line.strip() for line in text.splitlines() if line.strip()]
        said = last[-1] if last else f"it printed nothing and ended with status {status}"
    return f"the step '{step}' failed: {said[:_LENGTH].rstrip('.')}; {remedy}; {where}; {RESUMES}."


def lowered_clock(text: str) -> float | None:
    """MHz to which v++ has lowered the clock of the kernels because timing was not met; None if it has not."""
    found = _SCALED.search(text)
    return float(found[1]) if found else None
