"""Checkpoints: what they are on disk, how they are taken, and how they come back.

state       a worktree's complete state as values and tree oids
capture     worktree -> state
format      state <-> the commits of a checkpoint (the on-disk format is specified there)
timeline    the chain of checkpoints of one worktree: append, list, find
plan        what must be done to get from one state to another
apply       doing it
restore     the transaction around it, and undo
journal     what a killed restore leaves for `recover`
operation   merge, rebase, bisect … in progress
nested      repositories inside the worktree
statcache   which files were hashed before
"""
