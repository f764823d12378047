"""What a user calls beside torch.compile: the command line, explain, doctor, devices, tables of operators.

May import all.
"""
