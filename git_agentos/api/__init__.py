"""The public Python API: a repository, and what can be done in it.

    from git_agentos import open_repository

    repo = open_repository("path/to/worktree", agent="dev-1")
    saved = repo.checkpoints.create("before the experiment")
    repo.restore(saved.id)
    repo.undo()

repository   `open_repository()`, restore, undo, recover, status, report, doctor
checkpoints, worktrees, runs, log, turns   `repo.checkpoints`, …: they do what the commands of these names do
fleets       `repo.fleets`: tasks on many machines; `fleet_results` is what they return
remotes      `repo.remotes`: checkpoints of other clones
guard        `repo.guard` and `repo.approvals`
report_results   what `repo.report()` returns
results      what all the others return
conversion   the domain's results as the API's
served       what the watch daemon does for a process that stays open

Results are frozen: sequences are tuples, times are aware datetimes. Errors are subclasses of
`git_agentos.errors.AgentosError`. Nothing is printed. `git_agentos` exports all of it, and nothing else does.
"""

from git_agentos.api.repository import open_repository

__all__ = ["open_repository"]
