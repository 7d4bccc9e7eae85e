"""Restoring a saved state: restore, undo, rollback, recover.

commands             the way in: which state comes back, and where HEAD goes
request              what the transaction is asked for, and the result
transaction          its stages, from the first lock to the last record; the errors by which it refuses

choice               what is chosen of a restore of hunks; `mixture` is the state that it leads to

planner              computes the plan; `plan` is the result, `difference` the paths, `file_steps` steps for files
spelling             names that the file system takes for one: what must be renamed, what it cannot have
obstacles            what is in the way: files that the steps would overwrite and that no checkpoint holds
ignore_rules         what ignore rules hide before and after
index_plan           how the index changes
undo_check           whose work an undo would undo
idempotency          what calls with a key have returned

application          applies a plan to the files, and can revert it
verification         whether files and index are those of the target, before the restore is final
gitdir               puts the index, the operation in progress and the sparse checkout in place
head                 where HEAD goes: a new branch, the old one, or detached
nested_repositories  the same for repositories inside the worktree
"""
