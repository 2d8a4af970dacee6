"""What the stores say, as values: one file a subject, its SQL beside it."""
