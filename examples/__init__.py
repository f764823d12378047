"""Models and the demonstration."""
