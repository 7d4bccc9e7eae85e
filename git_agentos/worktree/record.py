"""The record of an agent's worktree, in its own git directory, and the look-up of a worktree by its id.

    <git dir>/agentos/id              the id alone: it names the timeline (`checkpoint.timeline.name_of`)
    <git dir>/agentos/worktree.json   everything, as `Record`; written last: a worktree without it is half-made

`<git dir>` is `<common dir>/worktrees/<git's own name>`; that name is not always the id (the folder may have another
name, a prepared worktree gets a new id), so worktrees are found by their records.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from git_agentos import config
from git_agentos.checkpoint import format, timeline
from git_agentos.checkpoint.model import Checkpoint
from git_agentos.errors import AgentosError, WorktreeError
from git_agentos.git import worktrees
from git_agentos.git.location import Location
from git_agentos.git.repository import Repository
from git_agentos.util import directories, files
from git_agentos.util.values import is_of_type

BRANCHES = "agent/"
RUN_BRANCHES = "agentos/"  # of the worktree of a run, whose id is `run-<run id>`
ACTIVE = "active"
COMPLETE = "complete"
_VERSION = 1
_LONGEST = 1 << 22
_ID = "id"
_RECORD = "worktree.json"
ATTACHMENT = b"worktree.json"  # where a checkpoint carries it


@dataclass(frozen=True)
class Record:
    """An agent's worktree as it was created.

    `base_ref` is what `--from` named, `base_sha` the commit that it led to; `path` where it was created (it may have
    been moved since); `state` is `active` or `complete`; `copied` are the ignored files that set-up brought in (paths
    relative to the root, text), `setup` the command that ran in it, `sparse` the folders of a sparse checkout.
    `run_id` is the run that it was created for, `protected` the patterns of branches that this run may not change.
    `synced_sha` is the base's commit that `worktree sync` has last brought it up to.
    `port_base` is the first of its `port_count` ports (`ports`). `linked` are the files and folders that agentos.link
    has brought.
    `changes_from` is the checkpoint whose uncommitted changes it began with.
    """

    id: str
    branch: str
    path: str
    base_ref: str
    base_sha: str
    created_at: str
    created_by: str
    task: str | None = None
    state: str = ACTIVE
    copied: list[str] = field(default_factory=list)
    setup: str | None = None
    sparse: list[str] = field(default_factory=list)
    completed_at: str | None = None
    protected: list[str] = field(default_factory=list)
    run_id: str | None = None
    synced_sha: str | None = None
    port_base: int | None = None
    port_count: int = 0
    linked: list[str] = field(default_factory=list)
    changes_from: str | None = None

    @property
    def base_commits(self) -> list[str]:
        """The commits of the base that its own work began at, the latest first."""
        return [self.base_sha] if self.synced_sha is None else [self.synced_sha, self.base_sha]


@dataclass(frozen=True)
class AgentWorktree:
    """An agent's worktree that has an entry in the repository: its record, its git directory, and where it is now.

    `root` is where git's entry says that it is; the folder may be missing.
    """

    record: Record
    git_dir: str
    root: str
    common_dir: str

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def ref(self) -> str:
        """The full name of its branch."""
        return "refs/heads/" + self.record.branch

    @property
    def location(self) -> Location:
        """Where it is, symbolic links resolved."""
        return Location.read(os.path.realpath(self.root), self.git_dir, self.common_dir)


def branch_of(id_: str, run_id: str | None = None) -> str:
    """The short name of the branch that a new worktree is given by default: an agent's, or a run's. The one that it has
    is in its record."""
    return (BRANCHES if run_id is None else RUN_BRANCHES) + id_


def write(git_dir: str, record: Record) -> None:
    """Record a worktree, durably; the id first, so that its timeline has its name from the beginning."""
    folder = name(git_dir, record.id)
    body = {"version": _VERSION, **asdict(record)}
    files.replace(os.path.join(folder, _RECORD), json.dumps(body, indent=1).encode("ascii") + b"\n")


def name(git_dir: str, id_: str) -> str:
    """Give a worktree its id, and so its timeline, while it is still being created; the folder of its record."""
    folder = directories.make_own(os.path.join(git_dir, "agentos"))
    files.replace(os.path.join(folder, _ID), os.fsencode(id_ + "\n"))
    return folder


def record_from_checkpoint(repository: Repository, checkpoint: str) -> Record | None:
    """The record that a checkpoint of an ended worktree carries; None where it carries none."""
    data = format.read_attachment(repository, checkpoint, ATTACHMENT)
    return _parse(data, f"{checkpoint[:8]}:worktree.json") if data is not None else None


def record_from_timeline(repository: Repository, id_: str, name: str | None = None) -> Record | None:
    """The newest record that a checkpoint of the worktree carries, in the timeline `name`, by default its own; where
    none does, one that is derived from its first checkpoint; None where that is not possible."""
    first: Checkpoint | None = None
    for link in timeline.walk(repository, name or id_):
        known = record_from_checkpoint(repository, link.checkpoint)
        if known is not None:
            return known
        first = format.read(repository, link.checkpoint)
    if first is None or first.commit is None:
        return None
    # The first checkpoint of a run is created before any work is done, on the branch that it was given.
    given = first.branch if first.run_id is not None else None
    return Record(
        id=id_,
        branch=given or branch_of(id_, first.run_id),
        path=first.worktree_path,
        base_ref=first.commit,
        base_sha=first.commit,
        created_at=first.created_at,
        created_by=first.created_by,
        task=first.task_id,
        run_id=first.run_id,
    )


def read(git_dir: str) -> Record | None:
    """The record of a worktree; None where there is none (not an agent's, or half-made)."""
    path = os.path.join(git_dir, "agentos", _RECORD)
    try:
        data = files.read(path, limit=_LONGEST)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _damaged(path, (error.strerror or "").lower()) from error
    return _parse(data, path)


def id_of(git_dir: str) -> str | None:
    """The id that a worktree was given; None where it has none, or where what is recorded is no id."""
    try:
        text = files.read(os.path.join(git_dir, "agentos", _ID), limit=_LONGEST).decode("ascii").strip()
        return config.agent_id(text, source="id")
    except (OSError, UnicodeDecodeError, AgentosError):
        return None


def has_record(git_dir: str) -> bool:
    """Whether a worktree has a record, whole or damaged."""
    return os.path.lexists(os.path.join(git_dir, "agentos", _RECORD))


def identify(git_dir: str) -> str | None:
    """The id of an agent's worktree, also where its record is damaged: that of the record, or git's own name for the
    worktree. None for other worktrees."""
    if has_record(git_dir):
        with contextlib.suppress(AgentosError):
            known = read(git_dir)
            if known is not None:
                return known.id  # the file with the id alone can be damaged unnoticed: it is a single word
    elif not os.path.lexists(os.path.join(git_dir, "agentos", _ID)):
        return None
    with contextlib.suppress(AgentosError):
        return id_of(git_dir) or config.agent_id(os.path.basename(git_dir), source="id")
    return None


def _parse(data: bytes, source: str) -> Record:
    try:
        return from_fields(json.loads(data.decode("utf-8", "surrogateescape")), source)
    except (ValueError, RecursionError) as error:
        raise _damaged(source) from error


def _damaged(source: str, why: str = "") -> WorktreeError:
    return WorktreeError(
        f"the record '{source}' is damaged" + (f": {why}" if why else ""), "git agentos worktree repair"
    )


def from_fields(body: Any, source: str) -> Record:
    """The record that a JSON object holds; unknown keys are ignored. WorktreeError where a key is missing, or its value
    has a wrong type."""
    if not isinstance(body, dict):
        raise _damaged(source)
    fields = {key: value for key, value in body.items() if key in Record.__dataclass_fields__}
    for key, value in fields.items():
        if not is_of_type(value, str(Record.__dataclass_fields__[key].type)):
            raise _damaged(source, f"'{key}' has a wrong type")
    try:
        found = Record(**fields)
        config.agent_id(found.id, source="id")
    except (TypeError, AgentosError) as error:
        raise _damaged(source) from error
    return found


def agent_worktrees(common_dir: str) -> Iterator[AgentWorktree]:
    """All agents' worktrees that have an entry, by id, without half-made ones and those with a damaged record."""
    found = []
    for git_dir in worktrees.linked_git_dirs(common_dir):
        with contextlib.suppress(WorktreeError, OSError):
            record = read(git_dir)
            if record is not None:
                found.append(AgentWorktree(record, git_dir, worktrees.root_of(git_dir), common_dir))
    yield from sorted(found, key=lambda each: each.id)


def get(common_dir: str, id_: str) -> AgentWorktree | None:
    """The agent's worktree with this id; None where there is none with an entry and a sound record."""
    return next((each for each in agent_worktrees(common_dir) if each.id == id_), None)


def find(common_dir: str, id_: str) -> AgentWorktree:
    """The agent's worktree with this id; WorktreeError where there is none, which says what else has this name."""
    found = get(common_dir, id_)
    if found is not None:
        return found
    for git_dir in worktrees.linked_git_dirs(common_dir):
        if identify(git_dir) == id_:
            raise WorktreeError(f"the worktree '{id_}' is half-made or damaged", f"git agentos worktree repair {id_}")
        if id_in_timelines(git_dir, common_dir) == id_:
            raise WorktreeError(
                f"'{id_}' is a worktree that git-agentos did not make", "git worktree remove removes it"
            )
    raise WorktreeError(
        f"there is no agent's worktree '{id_}'",
        "git agentos worktree list shows them; --revive brings an archived one back",
    )


def id_in_timelines(git_dir: str, common_dir: str) -> str:
    """The id of any linked worktree, an agent's or not: the name of its timeline."""
    return timeline.worktree_id(Location.read("", git_dir, common_dir))
