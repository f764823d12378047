"""The built-in patterns, a folder or file for each family of operators; lowering/order.py has their order."""
