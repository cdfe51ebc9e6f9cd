"""Defaults of the recipes that their commands show, too; a file of its own, so that help needs no heavy imports."""

MAX_LOSS = 1.0  # BLEU that an adaptation may lose on the old test set
BEAM_SIZE = 5  # of a teacher's translations
NUM_EXAMPLES = 8  # pairs in the prompt of a language model
NUM_REQUESTS = 8  # to its server at the same time
