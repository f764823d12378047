"""Program -> bytes and text."""
