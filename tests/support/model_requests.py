"""What a model is asked in tests: a run's worktree, made by the workspace service, and requests in it."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from git_agentos import GitWorktreeWorkspaceService, NullWorkspaceService
from git_agentos.checkpoint.creation import create_checkpoint
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.run.context import WorkspaceContext
from git_agentos.run.snapshot import run_context
from git_agentos.tdd.models.model import SCAFFOLD, Request
from git_agentos.tdd.node_run import changed_files
from git_agentos.workspace import open_workspace
from tests.support.repo import Repo

PROMPT = "Write a test for issue 87.\n"


@dataclass
class ModelWorktree:
    """A run's worktree, and what its models have said. `folder` is where exchanges are kept."""

    run: WorkspaceContext
    here: OpenWorktree
    folder: Path
    shown: list[bytes] = field(default_factory=list)

    @property
    def root(self) -> Path:
        return Path(self.run.worktree_path)

    def asked(
        self,
        node: str = SCAFFOLD,
        attempt: int = 0,
        *,
        prompt: str = PROMPT,
        issue: str = "87",
        mark: str = "",
        frozen: tuple[str, ...] = (),
        stop: Callable[[], bool] = lambda: False,
    ) -> Request:
        state = create_checkpoint(self.here, self.here.metadata(trigger="manual")).state
        changed = changed_files(self.here, self.run.base_sha, state.visible_tree)
        return Request(
            node=node,
            issue_id=issue,
            attempt=attempt,
            prompt=prompt,
            run=self.run,
            worktree=self.here,
            changed=tuple(each for each in changed if each not in frozen),
            folder=str(self.folder),
            show=self.shown.append,
            stop=stop,
            mark=mark or uuid.uuid4().hex,
        )

    def said(self) -> str:
        """The output of the last exchange."""
        return self.kept("stdout") + self.kept("stderr")

    def kept(self, name: str) -> str:
        """A file of the last exchange."""
        return (self.folder / name).read_text(encoding="utf-8")

    def files(self) -> set[str]:
        """Every file in the worktree but git's and ours."""
        paths = (path.relative_to(self.root) for path in self.root.rglob("*") if path.is_file() or path.is_symlink())
        return {str(path) for path in paths if path.parts[0] not in (".git", ".agentos")}


def model_worktree(repo: Repo) -> ModelWorktree:
    """A worktree of a run in a repository with a commit."""
    context = open_workspace(repo.path).context
    run = GitWorktreeWorkspaceService(context, task_id="87").prepare_pre_run(run_id="r1")
    return ModelWorktree(run, run_context(context, run), repo.scratch / "exchange")


def plain_worktree(repo: Repo) -> ModelWorktree:
    """A repository in the place of a run's worktree, for models that start nothing in it: with one commit, of
    nothing."""
    repo.git("commit", "--quiet", "--allow-empty", "-m", "base")
    context = open_workspace(repo.path).context
    run = NullWorkspaceService(str(repo.path), task_id="87").prepare_pre_run(run_id="r1")
    return ModelWorktree(
        replace(run, base_sha=context.repository.git("rev-parse", "HEAD").decode().strip()),
        context,
        repo.scratch / "exchange",
    )
