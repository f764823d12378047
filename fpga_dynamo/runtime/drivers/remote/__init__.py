"""A card behind a network: the client of `fpga-dynamo card-server` as a driver, and the protocol of both."""
