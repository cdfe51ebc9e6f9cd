"""Readers of files with both languages, one module per format; they yield records (source, target, line)."""
