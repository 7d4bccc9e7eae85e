"""A fleet on a bare repository: a person's clone, and another machine's in which its runs are made.

Results are made as a worker makes them, by real runs, without an engine. The agents of tasks commit what they do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from git_agentos.checkpoint import timeline
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.fleet import names, records
from git_agentos.fleet.records import Fleet, Result
from git_agentos.fleet.remote import DONE, Remote
from git_agentos.fleet.tasks import Task
from git_agentos.git import refs
from git_agentos.run import commands, evidence_copy
from git_agentos.run import spec as specs
from git_agentos.run.context import worktree_id
from git_agentos.run.events import Run
from tests.support import remotes
from tests.support.repo import Repo, git
from tests.support.runs import context_of

ID = "f"


def write(path: str, text: str) -> str:
    """A command of an agent: write a file of one line, and commit it."""
    return f"mkdir -p $(dirname {path}) && echo '{text}' >{path} && git add {path} && git commit -qm '{text}'"


def task(id_: str, *agents: str, validate: Sequence[str] = ("true",), **fields: Any) -> Task:
    spec = specs.from_options(agents or (write(f"{id_}.txt", id_),), validate, task=id_)
    return Task(id_, spec=spec, **fields)


def samples(id_: str, *agents: str) -> tuple[Task, ...]:
    """One sample of a task for each command."""
    return tuple(task(f"{id_}.{n}", agent, sample_of=id_) for n, agent in enumerate(agents, 1))


@dataclass
class Site:
    """A bare repository, the person's clone `repo` with a branch `main`, and the clone of another machine."""

    bare: Path
    repo: Repo
    machine: Repo
    fleet: Fleet | None = None

    @property
    def context(self) -> OpenWorktree:
        return context_of(self.repo)

    def remote(self, repo: Repo | None = None) -> Remote:
        return Remote(context_of(repo or self.repo).repository, "origin")

    def submit(self, *tasks: Task, id_: str = ID) -> Fleet:
        """Create the tasks of a fleet; its base is what `main` is at."""
        context = self.context
        base = self.repo.text("rev-parse", "main")
        self.fleet = Fleet(id_, base, tasks, "2026-01-02T03:04:05.000000Z", "local")
        with context.repository.writer() as writer:
            oid = records.write_tasks(writer, self.fleet, context.settings.committer)
            writer.flush()
        assert self.remote().create(names.tasks_ref(id_), oid).state == DONE
        return self.fleet

    def run(self, id_: str) -> tuple[Run, Result, str]:
        """Run a task on the machine: the run, the result that it would have, and the tree of its evidence."""
        fleet, machine = self.fleet, context_of(self.machine)
        assert fleet is not None
        wanted = fleet.task(id_)
        self.remote(self.machine).fetch([names.tasks_ref(fleet.id)])
        assert wanted.spec is not None
        run_id = names.run_id(fleet.id, id_)
        spec = replace(wanted.spec, run_id=run_id, base_ref=fleet.base_of(wanted))
        run = commands.start(machine, spec)
        tip = timeline.tip(machine.location, worktree_id(run_id))
        evidence = refs.resolve(machine.location, evidence_copy.PREFIX + run_id)
        assert run.left is not None and evidence is not None
        result = Result(
            id_, run.state, 1, "ok" if run.state == "passed" else "failed", "machine", run.started_at, run.ended_at,
            run_id=run_id, base=fleet.base, commit=run.left.head_sha, timeline=tip, checkpoint=run.final_checkpoint,
        )  # fmt: skip
        return run, result, evidence

    def settle(self, result: Result, evidence: str | None, repo: Repo | None = None) -> str:
        """Push a result; the id of its commit."""
        assert self.fleet is not None
        context = context_of(repo or self.machine)
        with context.repository.writer() as writer:
            oid = records.write_result(writer, self.fleet.id, result, context.settings.committer, evidence)
            writer.flush()
        assert self.remote(repo or self.machine).settle(self.fleet.id, result.task, oid).state == DONE
        return oid

    def work(self, *ids: str) -> dict[str, Result]:
        """Run tasks on the machine, and push their results."""
        found = {}
        for id_ in ids:
            _, result, evidence = self.run(id_)
            found[id_] = replace(result, result=self.settle(result, evidence))
        return found

    def refs(self) -> list[str]:
        """The refs of fleets on the remote."""
        return git(self.bare, "for-each-ref", "--format=%(refname)", names.PREFIX).decode().split()


def make(folder: Path, repo: Repo) -> Site:
    """A site, with `main` of `repo` on the remote."""
    bare = remotes.make_bare(folder, repo)
    remotes.connect(repo, bare, "person")
    repo.git("branch", "-M", "main")
    repo.git("push", "-q", "origin", "main")
    return Site(bare, repo, remotes.clone(folder, bare, "machine"))
