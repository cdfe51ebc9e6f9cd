"""Ids of the special tokens, the same in every vocabulary."""

UNK_ID, PAD_ID, BOS_ID, EOS_ID = 0, 1, 2, 3
