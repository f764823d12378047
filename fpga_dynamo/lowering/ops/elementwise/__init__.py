"""Element-wise operators, in groups that become one command."""
