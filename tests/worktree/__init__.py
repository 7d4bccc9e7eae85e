"""Managed worktrees, from their making to their end."""
