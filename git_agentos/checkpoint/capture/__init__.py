"""Reading the state of a worktree, without changing it.

state       git's scan -> index tree, worktree tree, untracked tree: the way in is `capture_state`
request     what a capture is asked for; selection: which paths belong to the state
observer    looks at a capture while it goes on; warns of very many untracked files
contents    the bytes of the files, read once and converted as git would
unmodified  files that git calls unmodified, and whose bytes no checkout would give
listing     folders, and paths that git does not mention: what an exact restore needs as well
unreadable  files that their owner cannot read: opened, so that they can be saved
stat_cache  which blob an unchanged file had: it is not read again
"""
