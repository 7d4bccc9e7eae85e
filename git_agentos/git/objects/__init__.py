"""Objects: read and written here, whichever way a repository needs. Nothing above `git` knows which one that is.

store           the port (`ObjectStore`), which backend serves a repository, and the change from one to the other
libgit2_store   the backend that reads with libgit2; libgit2: the part of pygit2 that it needs
plumbing        the backend of the standard library alone: for SHA-256, which libgit2 cannot read, and for a quick start
alternates      where else a store has its objects
pack_index      which objects a pack has; pack_file: the contents of small ones; cat_file: those of others, from a
                `git cat-file` that keeps running
writer          the objects of one checkpoint, written together; loose, pack: their formats
"""
