"""Everything that runs git or imports pygit2; the layers above see bytes, oids and dataclasses.

process     runs git, with a scrubbed environment
location    which repository and worktree a path is in (no pygit2)
scan        what git says changed: started early, read later (no pygit2)
repository  the open object store: read, write, trees, diffs
objects     writing objects durably, loose or as one pack
prune       living beside a gc that prunes at once
consolidate packing loose objects together from time to time
trees       tree edits whose cost follows the number of changes
dead_locks  git's own locks whose makers are proven to be dead
refs        HEAD and refs by compare-and-swap, with locks whose owner can be proven
index       reading and rewriting the index through git
convert     every byte that crosses the working tree through a filter
"""
