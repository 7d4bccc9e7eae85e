"""What the git hooks do in Python: the entry points of the scripts in `hooks/` at the top of this project.

    entry.py       a hook's name -> the function for it
    called.py      a hook as git called it
    subject.py     the git command that called, and who gave it
    verdict.py     judged and enforced: the way of all that decide
    files.py       core.fsmonitor: before files change
    refs.py        reference-transaction: before refs change
    gates.py       pre-commit, pre-rebase, pre-merge-commit, pre-push
    record.py      the recorders: post-commit, post-checkout, post-merge, post-rewrite
    pending.py     what they are to record, noted by the scripts and done in the background
    passed.py      which git processes were let through, for the scripts to see
    chain.py       where the user's own hooks are, for the scripts to see
    talk.py        what is said on stderr

They run inside of other people's git commands. Standard library only until something must be saved: everything else is
imported where it is used. Exit code 0 lets git go on, 3 stops it; any other is a failure, and the script decides what
that means (`decide` in `hooks/guard.sh`).
"""
