"""Worktrees that git-agentos makes.

create      a new worktree that holds the state of a checkpoint
"""
