"""Search: token ids in, token ids out. Imports nothing here, so that `hypothesis` can be used without torch."""
