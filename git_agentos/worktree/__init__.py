"""Agents' worktrees: how they are made, looked at, merged and ended.

record, intent   what is written down of one, and of an operation under way on it
place, setup     where they go, and what makes them ready for work
create, pool     making one, or claiming one that was prepared
survey           how they stand
work, merge      what an agent has committed, and bringing it into a branch
advance          moving a branch, with the worktree that has it checked out
obstacles        what no commit has and that would be overwritten
conflicts        whose work does not go together with whose
complete, end    the merge request; archive and remove, which save everything first
repair           back to a sound state
"""
