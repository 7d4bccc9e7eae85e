"""Checkpoints: what they are on disk, how they are taken, and how they come back.

state           a worktree's complete state as values and tree oids
capture         worktree -> state: what of the index, and which paths
contents        the bytes of those paths: read untorn, converted as git would
unmodified      files that git calls so, and that no checkout would give
own_bytes       what a state knows of the bytes that its files had
walk            folders, and what git passes over without a word: what an exact restore needs beside
closed          files that cannot be read are opened for a save
statcache       which files were hashed before
operation       merge, rebase, bisect … in progress
nested          repositories inside the worktree
format          state <-> the commits of a checkpoint (the on-disk format is specified there)
timeline        the chain of checkpoints of one worktree: append, list, find
take            capture, write, append
context         where a command works, and who acts in it

restore         the three commands: restore, undo, recover
goal            what one is to bring about, and what came of it
transaction     from the first lock to the last record
journal         what a killed one leaves for `recover`
plan            the steps from one state to another
planning        working them out
paths           which paths it may touch
obstacles       what is in the way
index_plan      how the index has to change
checkout        files as git checks them out by the attributes of a state
apply           carrying them out in the worktree
gitdir          putting the index, the operation in progress and the sparse checkout in place
head            where HEAD goes
nested_restore  the same for repositories inside
"""
