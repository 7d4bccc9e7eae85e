"""Checkpoints: their format, creating them, and restoring them.

model           the values: a worktree's complete state, the checkpoint, its metadata
open_worktree   one worktree, opened: what every operation is given
creation        create a checkpoint: capture the state, write it, append it to the timeline
format          state <-> the commits of a checkpoint (the on-disk format is specified there)
timeline        the chain of checkpoints of one worktree: append, list, find
queries         lists, searches, differences and files of checkpoints; the status
operation       the merge, rebase, bisect … in progress
nested          repositories inside the worktree; nested_objects keeps their objects
own_bytes       what a state knows about the bytes of its files
checkout        files as git checks them out by the attributes of a state
disk, paths     what is on disk, path by path; which paths a restore may touch
journal         the journal of a restore, and the record for `undo`
log_sync        what checkpoints carry of log and memory; log_archive: a worktree's whole log
pick            cherry-pick, with a checkpoint first
doctor          the checks on what checkpoints need

capture/        read the state of a worktree
restore/        restore, undo, rollback and recover
"""
