"""Layer, group, batch and RMS norm."""
