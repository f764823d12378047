"""From a call of a compiled graph to its launches."""
