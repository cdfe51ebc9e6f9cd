"""One file with both languages to records (source, target, line), for each format that a corpus may have."""
