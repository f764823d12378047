"""Networks on the hardware engine: their layers as engine commands, counted by the simulator and by the cost model."""
