"""``fpga-dynamo estimate``: a model's estimated latency on a card, from the commands that it is lowered to.

model.py quantises and captures the model, hardware.py has the card from a platform's and a recipe's files, program.py
the commands that lowering/passes/engine/ makes, figures.py their time, simulation.py runs them on the cycle simulator.
"""
