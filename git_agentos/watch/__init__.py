"""The watch daemon: one process for a user and a repository that knows which files of its worktrees have changed.

server          the daemon's loop: its socket, who may ask, bounded requests
daemon          its life: the lock that there is one only, when it ends, its log
repository      the worktrees of the repository that are watched, and one that comes, moves or goes
worktree        one watched worktree: its folders, what changed in them, what must be looked at always
changes         the changed paths of a worktree in the order of their last change, and tokens for git
ignored         the folders that are not watched because git ignores all that is in them
watcher         the port: what the daemon needs of a system that tells of changes
inotify         its implementation on Linux
in_process      worktrees that a process watches for itself while no daemon runs
service         does the work of commands and hooks, in forked processes
scans           what such a process knows of the scan before it, so that git looks only at what has changed since
periodic        checkpoints that the daemon creates by itself
notifying       what it notices for `agentos.notify`
pushing         timelines that it pushes by itself
place           where the socket, the lock and the log are, and whether they are the user's own
protocol        requests and answers on the socket
client          asks a daemon, and lets it do the work of a command; standard library only
proof           how a daemon shows its clients that it is the user's own
fsmonitor       asks it for git
control         starts, stops and describes the daemon
automatic       starts it by itself where one is wanted
diagnosis       what `doctor` says of it

Events are hints: an answer is only given once everything that happened before it has come through the queue of events,
and whenever something may have been missed it is "everything may have changed". Nothing depends on the daemon: without
one, or with one that is too slow, git and git-agentos do the work themselves.
"""
