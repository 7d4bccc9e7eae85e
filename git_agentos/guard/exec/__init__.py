"""`guard exec`: a command below which the guard decides about every git."""
