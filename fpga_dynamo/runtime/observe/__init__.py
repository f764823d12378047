"""What can be seen of a run: traces, counters, verification, reproductions of errors."""
