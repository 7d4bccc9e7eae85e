"""Fleets of tests: a repository, its bare remote, and machines that have nothing but a folder for clones."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from git_agentos import open_workspace
from git_agentos.fleet import clones, names, records, tasks
from git_agentos.fleet.records import Fleet, Live, Result
from git_agentos.fleet.remote import DONE, Remote
from git_agentos.util import times
from tests.support.remotes import connect, make_bare
from tests.support.repo import Repo, git
from tests.support.tool import Result as Ended
from tests.support.waiting import PATIENCE

FLEET = "f"


@dataclass
class Site:
    """The repository of whoever submits, its remote, and what workers of tests get as their environment."""

    repo: Repo
    shared: Path
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return self.shared.as_uri()

    @property
    def remote(self) -> Remote:
        return Remote(open_workspace(self.repo.path).context.repository, "origin")

    def configure(self, key: str, value: str) -> None:
        """Set a key of the configuration of whoever works for this site; the home folder is shared with other tests."""
        path = self.folder / "site.gitconfig"
        if not path.exists():
            path.write_text(f"[include]\n\tpath = {os.environ['GIT_CONFIG_GLOBAL']}\n")
        git(self.folder, "config", "--file", str(path), key, value)
        self.environment["GIT_CONFIG_GLOBAL"] = str(path)

    def submit(self, *rows: Mapping[str, Any], fleet: str = FLEET) -> str:
        """Record tasks on the remote, as `fleet submit` does, and start nothing."""
        path = self.folder / f"{fleet}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        context = open_workspace(self.repo.path).context
        listed = tuple(map(tasks.accepted, tasks.read_file(str(path)).tasks))
        made = Fleet(fleet, self.repo.oid("HEAD"), listed, times.now_text(), "local")
        with context.repository.writer() as writer:
            oid = records.write_tasks(writer, made, context.settings.committer)
            writer.flush()
        assert self.remote.create(names.tasks_ref(fleet), oid).state == DONE
        return oid

    def machine(self, name: str) -> Machine:
        return Machine(self, name)

    def refs(self) -> dict[str, str]:
        """The refs of fleets on the remote, by what follows the name of the fleet."""
        rows = git(self.shared, "for-each-ref", "--format=%(refname) %(objectname)", names.PREFIX).decode().splitlines()
        found = dict(row.split(" ") for row in rows)
        return {name.removeprefix(f"{names.PREFIX}{FLEET}/"): oid for name, oid in found.items()}

    def result(self, task: str) -> Result:
        """The result of a task, read from the remote."""
        ref = names.result_ref(FLEET, task)
        oid = self.remote.fetch([ref])[ref]
        return records.read_result(open_workspace(self.repo.path).context.repository, oid, FLEET, task)

    def live(self, task: str) -> Live:
        """How far a task is, read from the remote."""
        ref = names.live_ref(FLEET, task)
        oid = self.remote.fetch([ref])[ref]
        return records.read_live(open_workspace(self.repo.path).context.repository, oid, FLEET, task)

    def show(self, task: str, path: str) -> bytes:
        """A file of a task's result, as the branch has it."""
        return git(self.shared, "show", f"{self.refs()[f'results/{task}']}^1:{path}")

    def evidence(self, task: str) -> list[dict[str, Any]]:
        """The events of a task's run."""
        data = git(self.shared, "show", f"{self.refs()[f'results/{task}']}:evidence/events.jsonl")
        return [json.loads(line) for line in data.splitlines()]


@dataclass(frozen=True)
class Machine:
    """A machine that workers run on: a folder for clones."""

    site: Site
    name: str

    @property
    def folder(self) -> Path:
        return self.site.folder / self.name

    @property
    def variables(self) -> dict[str, str]:
        """What the environment of a worker has more than that of the tests."""
        return {**self.site.environment, clones.FOLDER: str(self.folder)}

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, **self.variables}

    def words(self, task: str, *options: str, fleet: str = FLEET) -> list[str]:
        """The command line of a worker."""
        words = [sys.executable, "-P", "-m", "git_agentos", "fleet", "worker", fleet, task]
        return [*words, "--remote", self.site.url, *options]

    def work(self, task: str, *options: str, fleet: str = FLEET) -> Ended:
        """A worker, to its end."""
        with self.begin(task, *options, fleet=fleet) as child:
            out, err = child.communicate(timeout=PATIENCE)
        return Ended((task, *options), child.returncode, out, err)

    def begin(self, task: str, *options: str, fleet: str = FLEET) -> subprocess.Popen[bytes]:
        """A worker that goes on by itself, in a process group of its own."""
        return subprocess.Popen(
            self.words(task, *options, fleet=fleet),
            cwd=self.site.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    @property
    def clone(self) -> Repo:
        """The clone of the only remote."""
        (found,) = self.folder.glob("*/repository")
        return Repo(found)

    def left(self) -> dict[str, Sequence[str]]:
        """What is left of runs: worktrees but the pool's, refs, evidence, and files of locks and journals."""
        repo, common = self.clone, self.clone.path / ".git"
        worktrees = [each.name for each in repo.path.parent.glob("repository.worktrees/*") if each.name != ".pool"]
        entries = [each.name for each in common.glob("worktrees/*") if not (each / "agentos" / "pool.json").exists()]
        refs = repo.text("for-each-ref", "--format=%(refname)").splitlines()
        folders = ("fleet", "runs", "worktrees", "trash", "tmp")
        files = [str(each.relative_to(common)) for name in folders for each in (common / "agentos" / name).glob("*")]
        locks = [str(each.relative_to(common)) for each in common.rglob("*.lock")]
        found = {
            "worktrees": worktrees,
            "entries": entries,
            "refs": [each for each in refs if not each.endswith("/tasks")],
            "evidence": [each.name for each in repo.path.glob(".agentos/runs/*")],
            "files": files + locks,
        }
        return {name: rows for name, rows in found.items() if rows}

    def pool(self) -> list[str]:
        """The prepared worktrees."""
        return [each.name for each in self.clone.path.parent.glob("repository.worktrees/.pool/*")]


def waits_for(path: Path) -> str:
    """Shell text that goes on once there is a file."""
    return f"until [ -e '{path}' ]; do sleep 0.02; done"


def kill(child: subprocess.Popen[bytes]) -> None:
    """Kill a worker alone; what it has started goes on."""
    child.send_signal(signal.SIGKILL)
    child.communicate(timeout=PATIENCE)


def make(repo: Repo, folder: Path) -> Site:
    """A site whose remote has nothing yet but what is pushed to it; there are no pauses between two `live` pushes."""
    shared = make_bare(folder, repo)
    connect(repo, shared, "desk")
    site = Site(repo, shared, folder)
    site.configure("agentos.fleet.liveInterval", "0")
    return site
