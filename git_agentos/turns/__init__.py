"""Turns: what an agent did from one prompt to the next.

sessions   which turn of a session is open in a worktree; the files in which that is kept
record     begins and ends a turn, as entries of the agent log
listing    reads turns from these entries
revert     takes back what one turn changed, under later edits; merging computes the state without it
changes    the paths in which two checkpoints differ
"""
