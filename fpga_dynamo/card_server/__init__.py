"""`fpga-dynamo card-server`: the cards of this machine for clients at the other end of a network; needs no torch."""
