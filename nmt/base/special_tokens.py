"""The ids of the special tokens, which are the same in every vocabulary."""

UNK_ID, PAD_ID, BOS_ID, EOS_ID = 0, 1, 2, 3
