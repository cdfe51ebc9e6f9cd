"""Checks of parallel text: find the faults of a corpus, row by row."""
