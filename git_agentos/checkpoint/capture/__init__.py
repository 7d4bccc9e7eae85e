"""Reading the state of a worktree, without changing it."""
