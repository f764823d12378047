"""What the project is tested with, for users' own models too: an error measure and random model graphs.

`reference` says what "as good as eager" means, `graphs` draws random graphs with hypothesis, `fuzz` puts the two
together. `graphs` and `fuzz` need hypothesis, the others only what the package needs.
"""
