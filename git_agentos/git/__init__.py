"""git: the only folder that runs it and the only one that imports pygit2.

process         running git: one way to start it, one environment, one error
version         the version of git, and the oldest one that will do
location        which repository and worktree a path is in
repository_format  the extensions of a repository, and whether they are supported
hash_algorithm  how long object ids are, and how they are computed
gitfile         the small files by which a worktree and its repository find each other
worktrees       the worktrees of a repository, and who uses a branch
repository      the open repository: objects, ancestry
transport       refs of a remote: listed, fetched, pushed; bundle: objects in a file
quarantine      objects beside the store, which are kept or not
configuration   reading git's configuration; own_configuration: what is taken only from the user's own
objects         a package: reading objects, by one of two backends; writing them so that they are on disk when a
                checkpoint is reported
all_objects     every object in the store, read; raw_commits: commits as bytes, with other parts
new_objects     what some commits reach and others do not, in one stream
consolidation   packing together what many checkpoints have written
gc              whether a `git gc` runs, and saving beside it
reachability    which objects nothing needs any more; links: which objects an object names
object_removal  deleting objects while others read and write; object_sizes: what objects take on disk
filesystem      which names the file system takes for one, by a probe; filesystem_limits: what else it cannot do
trees           trees as mappings: parse, edit, walk, compare
refs            reading refs, and moving them by compare-and-swap
tree_refs       files that a ref of their own keeps
lockfile        git's lock files, made so that a stale one is recognised
stale_locks     git's own lock files whose makers are proven to be dead
state_dir       the folder of git-agentos in a worktree's git directory: locks, scratch folders
scan            what git says has changed in a worktree; fresh_checkout: the same where nothing can have changed
rescan          the same again, where an earlier one is known, and which paths may have changed since
untracked       the untracked part of a scan; index_entries: what the index lists
index_file      the bytes of an index, read without git
index           editing the index; index_damage: whether it can be read
ignore          ignore rules
filters         every byte that crosses the working tree through a filter
merge_tree      merging commits in memory; line_diff: which lines two texts have in common
hunks           the parts of git's patches: parsed, split, edited, taken back
remote_branch   the branch of a remote that a branch follows, and fetching it in a limited time
user_hooks      the hooks and the fsmonitor that a user has set up
authorship      who commits, for programs that do not get the user's environment
editor          the user's editor
dates           times as people write them, read by git
"""
