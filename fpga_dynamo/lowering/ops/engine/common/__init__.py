"""What operators on engines of int8 and of floats have in common."""
