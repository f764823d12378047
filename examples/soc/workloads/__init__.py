"""Applications of the field as PyTorch models, each with generated signals whose truth is known.

Every module has a model, `example()` (the model and inputs, what `fpga-dynamo` takes as `module:example`) and what says
what is in a signal. `tests/workloads/test_workloads.py` holds them against the truth and against eager, on any unit.
"""

from collections.abc import Callable

import torch

from examples.soc.workloads import detection, doppler, mitigation, speech, vgg, wifi

WORKLOADS: dict[str, Callable[[], tuple[torch.nn.Module, tuple[torch.Tensor, ...]]]] = {
    "detection": detection.example,
    "vgg16": vgg.example,
    "speech": speech.example,
    "wifi_tx": wifi.example,
    "pulse_doppler": doppler.example,
    "temporal_mitigation": mitigation.example,
}
"""By name: what gives the model in eval mode, and its inputs for one instance."""
