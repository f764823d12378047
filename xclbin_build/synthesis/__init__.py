"""Reports of Vitis: held against contracts, predictions and estimates, and written as pages."""
