"""Taking a run's worktree back.

rollback     where to, and the result
pristine     what may not be as it was made: where to look
mend         a worktree that is damaged or gone is made one again first; `finish` what comes after
own_config   the worktree's own configuration and the guard, as they were
"""
