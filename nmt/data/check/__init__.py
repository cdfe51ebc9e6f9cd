"""Checks of parallel text: what is wrong with a corpus, row by row."""
