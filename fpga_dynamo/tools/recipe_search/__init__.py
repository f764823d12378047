"""``xclbin-build --from-model``: the engine recipe of a platform that runs given models fastest, by the cost model.

workload.py has the models' graphs and what they cost on an engine, limits.py a bound of that, space.py the engines that
fit the card, search.py the search, recipe_file.py the recipe as a file, command.py the command.
"""
