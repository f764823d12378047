"""Which processing element runs which task, in real and in virtual time."""
