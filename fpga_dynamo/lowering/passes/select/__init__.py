"""Passes that select what runs on the card: matches of patterns, and the launches that they become."""
