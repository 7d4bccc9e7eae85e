"""Checkpoints: the complete state of a worktree, saved as git objects and restored from them.

model           the values: `State`, `Checkpoint`, `Metadata`, `Skipped`
open_worktree   one worktree, opened: what every operation on it is given
capture/        worktree -> state; nothing is changed
creation        capture, write, append: the only place where a checkpoint is created
format          state <-> commits; its docstring specifies the on-disk format. state_fields: <-> meta.json
timeline        the chain of a worktree's checkpoints: append, list, find
upkeep          starting `git agentos storage upkeep` from time to time
carrier         what a timeline keeps of checkpoints that were forgotten
renamed         the ids of checkpoints that were written again
deferred        notes of checkpoints that hooks created while git had locked all refs: `timeline` appends them later
restore/        state -> worktree, as one transaction: restore, undo, rollback, recover
journal         the record of a restore that is going on: a killed one is finished or aborted by it
queries         lists, searches, differences, files, the status
pick            cherry-pick after a checkpoint

What a state is made of, for capture and restore alike:

operation       the merge, rebase, bisect … in progress
nested          repositories inside the worktree; nested_objects: their objects and refs
own_bytes       the bytes that files had on disk, where the blob does not give them
checkout        files as git checks them out by the attributes of a state
disk            what is on disk, path by path
paths           which paths a restore may change

log_sync        the log and memory entries that checkpoints carry, and the database that is kept in step with them
doctor          the checks of `doctor` on all this
"""
