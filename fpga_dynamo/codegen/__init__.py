"""A Program's commands as they are written, as bytes and as text. May import ir."""
