"""Search: ids in, ids out; sees no text. Imports nothing here, so that `hypothesis` can be used without torch."""
