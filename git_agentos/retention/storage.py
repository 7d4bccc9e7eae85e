"""What checkpoints and everything else of git-agentos take on disk, and what forgetting would free.

git lists the objects that only timelines reach, once from the newest commit and once from the oldest. So each object
has the newest and the oldest checkpoint that has it, and a rule frees it if it keeps none from the one to the other.
What several timelines share counts for the first of them, and is freed by none.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from git_agentos import config
from git_agentos.checkpoint import timeline
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.git import object_sizes, refs
from git_agentos.git.repository import Repository
from git_agentos.retention import plan, protection, rules
from git_agentos.retention.plan import Plan
from git_agentos.retention.rules import Rules
from git_agentos.run import evidence_copy
from git_agentos.run.context import runs_folder
from git_agentos.store import database_path
from git_agentos.util import directories, times
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.util.progress import SILENT, counted
from git_agentos.worktree import pool

if TYPE_CHECKING:
    from git_agentos.util.progress import Progress

_OTHERS = ("--branches", "--tags", "--remotes", "--glob=refs/stash", "HEAD")
_MOST = 10
_COPIES = (evidence_copy.PREFIX, "refs/agentos/workflows/")
# What is measured in any case, beside the rules that are set.
_EXAMPLES = ("last=20", "within=7d", "daily=30")


class TimelineStorage(NamedTuple):
    """A timeline: `freeable_bytes` are those of checkpoints that nothing protects; times are of its checkpoints."""

    timeline: str
    checkpoints: int
    bytes: int
    freeable_bytes: int
    oldest: str | None
    newest: str | None


class RuleStorage(NamedTuple):
    """What rules would free, in the words of `agentos.retention`."""

    rule: str
    freeable_bytes: int


class LargePath(NamedTuple):
    """All contents of a path that only checkpoints have, and the oldest checkpoint with the largest of them."""

    path: str
    bytes: int
    checkpoint: str


class LargeCheckpoint(NamedTuple):
    """A checkpoint, and what it has that no older one has."""

    id: str
    timeline: str
    bytes: int


class Storage(NamedTuple):
    """Bytes on disk. Those of archives are among those of timelines; all others are apart."""

    total_bytes: int
    timelines: tuple[TimelineStorage, ...]
    archives_bytes: int
    runs_bytes: int
    databases_bytes: int
    kept_bytes: int
    pool_bytes: int
    rules: tuple[RuleStorage, ...]
    largest: tuple[LargePath, ...]
    largest_checkpoints: tuple[LargeCheckpoint, ...]
    budget_bytes: int | None


def measure(context: OpenWorktree, names: Sequence[str]) -> Storage:
    """What these timelines take, and the rest of the repository."""
    repository = context.repository
    plans = [found for found in (plan.read(repository, name) for name in names) if found is not None and found.links]
    needed = protection.needed(context)
    wanted = _rules(context)
    freed = [0] * len(wanted)
    rows: list[TimelineStorage] = []
    paths: list[LargePath] = []
    checkpoints: list[LargeCheckpoint] = []
    archives = 0
    parts = held(repository, plans, context.progress)
    for each, part in zip(plans, parts, strict=True):
        bare = plan.by_rules(each, Rules({}), needed)
        kept = [plan.by_rules(each, rule, needed).forgotten for rule in wanted]
        for n, forgotten in enumerate(kept):
            freed[n] += part.freed_by(forgotten)
        own = part.by_checkpoint()
        archives += sum(
            own.get(link.checkpoint, 0) for link in each.links if protection.by_trigger(link.trigger) == "archive"
        )
        rows.append(_row(each, part, bare))
        paths += part.largest()
        checkpoints += [LargeCheckpoint(oid, each.timeline, number) for oid, number in own.items()]
    runs = directories.disk_usage(runs_folder(context.location)) + _copies(
        repository, {oid for part in parts for oid in part.sizes}
    )
    databases, kept_bytes = _databases(context), _kept(context)
    ready = sum(directories.disk_usage(each.path) for each in pool.prepared(context.location))
    return Storage(
        total_bytes=sum(each.bytes for each in rows) + runs + databases + kept_bytes + ready,
        timelines=tuple(sorted(rows, key=lambda row: -row.bytes)),
        archives_bytes=archives,
        runs_bytes=runs,
        databases_bytes=databases,
        kept_bytes=kept_bytes,
        pool_bytes=ready,
        rules=tuple(RuleStorage(" ".join(rule.words), number) for rule, number in zip(wanted, freed, strict=True)),
        largest=tuple(sorted(paths, key=lambda each: -each.bytes)[:_MOST]),
        largest_checkpoints=tuple(sorted(checkpoints, key=lambda each: -each.bytes)[:_MOST]),
        budget_bytes=config.disk_budget(context.settings.values),
    )


def _rules(context: OpenWorktree) -> list[Rules]:
    """The rules that are set, together and each alone, and some others."""
    found = rules.parse(config.retention(context.settings.values))
    wanted = [] if found is None else [found, *found.single()]
    wanted += [each for each in map(rules.parse, _EXAMPLES) if each is not None]
    return list({tuple(each.words): each for each in wanted}.values())


def _row(found: Plan, part: Held, bare: Plan) -> TimelineStorage:
    at = [link.at for link in found.links if not link.is_carrier]
    return TimelineStorage(
        timeline=found.timeline,
        checkpoints=len(at),
        bytes=sum(part.sizes.values()),
        freeable_bytes=part.freed_by(bare.forgotten),
        oldest=_text(min(at, default=None)),
        newest=_text(max(at, default=None)),
    )


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else times.to_text(moment.astimezone(UTC))


def held(repository: Repository, plans: Sequence[Plan], progress: Progress = SILENT) -> list[Held]:
    """The objects of each timeline, without those of timelines before it."""
    seen: set[str] = set()
    found = []
    for each in counted(progress, "Measuring timelines", plans):
        part = Held(repository, each, seen)
        seen |= part.sizes.keys()
        found.append(part)
    return found


# -- the objects of a timeline -----------------------------------------------------------------------------------------


class Held:
    """The objects that only one timeline reaches (and no timeline before it), by their oldest and newest checkpoint.

    Positions count from the newest link of the timeline.
    """

    def __init__(self, repository: Repository, found: Plan, seen: set[str]) -> None:
        self._plan = found
        positions = {link.commit.oid: n for n, link in enumerate(found.links)}
        newest, self._paths = _listed(repository, found, positions, "--parents")
        oldest, _ = _listed(repository, found, positions, "--reverse", "--no-object-names")
        for oid in seen & newest.keys():
            del newest[oid]
        self.sizes, self._blobs = object_sizes.of_kinds(repository, newest)
        self._spans = {oid: (newest[oid], oldest.get(oid, newest[oid])) for oid in self.sizes}

    def freed_by(self, forgotten: frozenset[str]) -> int:
        """How many bytes are freed if these checkpoints are forgotten."""
        if not forgotten:
            return 0
        kept = [0, *itertools.accumulate(link.checkpoint not in forgotten for link in self._plan.links)]
        return sum(
            number for oid, number in self.sizes.items() if kept[self._spans[oid][1] + 1] == kept[self._spans[oid][0]]
        )

    def by_checkpoint(self) -> dict[str, int]:
        """Bytes by the oldest checkpoint that has them."""
        found: dict[int, int] = {}
        for oid, (_, oldest) in self._spans.items():
            found[oldest] = found.get(oldest, 0) + self.sizes[oid]
        links = self._plan.links
        return {links[n].checkpoint: number for n, number in found.items() if not links[n].is_carrier}

    def largest(self) -> list[LargePath]:
        """The paths whose contents take most."""
        found: dict[str, list[str]] = {}
        links = self._plan.links
        for oid in self._paths.keys() & self._blobs:
            if not links[self._spans[oid][1]].is_carrier:
                found.setdefault(self._paths[oid], []).append(oid)
        numbers = {path: sum(self.sizes[oid] for oid in oids) for path, oids in found.items()}
        rows = []
        for path in sorted(numbers, key=lambda path: (-numbers[path], path))[:_MOST]:
            _, largest = max((self.sizes[oid], oid) for oid in found[path])
            rows.append(LargePath(path, numbers[path], links[self._spans[largest][1]].checkpoint))
        return rows


def _listed(
    repository: Repository, found: Plan, positions: dict[str, int], *options: str
) -> tuple[dict[str, int], dict[str, str]]:
    """The objects of a timeline that nothing else reaches, with the position of the first checkpoint in git's order
    that has each; and the paths of those that have one. `positions` gets those of all commits."""
    others = [f"--exclude={timeline.PREFIX}{found.timeline}", *_OTHERS]
    args = ("rev-list", "--objects", "--in-commit-order", *options, found.tip, "--not", *others)
    lines = os.fsdecode(repository.git(*args)).split("\n")
    length = len(found.tip)
    where: dict[str, int] = {}
    paths: dict[str, str] = {}
    position = 0
    for line in lines:
        oid, rest = line[:length], line[length + 1 :]
        if oid in positions:
            position = positions[oid]
            for parent in rest.split(" ") if rest else ():
                positions.setdefault(parent, position)
        elif rest:
            paths[oid] = rest
        where[oid] = position
    where.pop("", None)
    return where, paths


# -- everything else ---------------------------------------------------------------------------------------------------


def _copies(repository: Repository, seen: set[str]) -> int:
    """What the copies of evidence and of workflows take that no timeline has."""
    tips = [oid for prefix in _COPIES for oid in refs.list_refs(repository.location, prefix, skip_broken=True).values()]
    if not tips:
        return 0
    listed = repository.git("rev-list", "--objects", "--no-object-names", *tips).decode("ascii").split()
    return sum(object_sizes.of_kinds(repository, set(listed) - seen)[0].values())


def _databases(context: OpenWorktree) -> int:
    found = {database_path.path_of(where, context.settings.workflow_db) for where in context.all_worktrees()}
    return sum(_file(path + end) for path in found for end in ("", "-wal", "-shm"))


def _file(path: str) -> int:
    try:
        return os.lstat(path).st_blocks * object_sizes.BLOCK
    except OSError:
        return 0


def _kept(context: OpenWorktree) -> int:
    """Folders that restores have moved away, and removed worktrees that are not deleted yet."""
    folders = [os.path.join(where.state_dir, "kept") for where in context.all_worktrees()]
    folders += [os.path.join(context.location.shared_state_dir, name) for name in ("trash", "kept")]
    return sum(directories.disk_usage(folder) for folder in dict.fromkeys(folders) if os.path.isdir(folder))
