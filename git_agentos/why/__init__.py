"""Why a line is there: the commit, the checkpoint and the turn that it comes from.

explain    a file, line by line
origin     where lines came into the versions of a file
versions   the checkpoints of a timeline, and the versions of a file in them
windows    between which checkpoints which turn was at work, alone
commits    git blame, and lines that came by commits from another worktree
"""
