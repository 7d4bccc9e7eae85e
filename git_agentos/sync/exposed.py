"""What was pushed from this clone without encryption, for `doctor`: the ignored files in it. No remote is asked."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from git_agentos.checkpoint import carrier, timeline
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError
from git_agentos.git import refs, trees
from git_agentos.git.repository import Repository
from git_agentos.secrets.captured_files import Pushed
from git_agentos.sync import encrypted, host, names

_IGNORED = b"ignored"  # in the fourth parent of a checkpoint


def pushed(context: OpenWorktree) -> Iterator[Pushed]:
    """The timelines of this clone that are on a remote as they are, and the ignored files in their checkpoints."""
    location = context.location
    found: dict[tuple[str, str], set[bytes]] = {}
    for ref, tip in refs.list_refs(location, timeline.FETCHED, skip_broken=True).items():
        parsed = names.parse_fetched(ref)
        if parsed is None or parsed[1].host != host.name(context):
            continue
        remote, name = parsed
        if encrypted.key(name) not in encrypted.known(location, remote):
            with contextlib.suppress(AgentosError):  # what is missing here is reported as such
                found.setdefault((name.timeline, remote), set()).update(_ignored_files(context.repository, tip))
    for (id_, remote), paths in sorted(found.items()):
        yield Pushed(id_, remote, sorted(paths))


def _ignored_files(repository: Repository, tip: str) -> Iterator[bytes]:
    seen = set()
    for commit in timeline.commits(repository, tip):
        parents = () if carrier.is_carrier(commit) else repository.commit(commit.parents[1]).parents
        if len(parents) < 4:
            continue
        entry = repository.entries(repository.commit(parents[3]).tree).get(_IGNORED)
        if entry is not None and entry not in seen:
            seen.add(entry)
            yield from (path for path, _ in trees.walk(repository, entry[1]))
