"""What the guard puts into a repository, takes away again, and whether it acts there."""
