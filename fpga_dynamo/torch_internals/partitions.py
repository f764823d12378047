"""Parts of a graph whose nodes a backend supports."""

from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner, Partition
from torch.fx.passes.operator_support import OperatorSupportBase

__all__ = ["CapabilityBasedPartitioner", "OperatorSupportBase", "Partition"]
