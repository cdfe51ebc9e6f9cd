"""Teacher-forced training."""
