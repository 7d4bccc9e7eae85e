"""Fleets that were fetched: their refs here are dropped where they lead to what is to be forgotten.

The remote has them still, and nothing of this clone can replace what workers of other machines have pushed: that is
said, with what deletes it there. What was collected from them is rewritten as any other run of this repository.
"""

from __future__ import annotations

from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.fleet import names
from git_agentos.git import refs
from git_agentos.git.repository import Repository
from git_agentos.retention.progress import Progress
from git_agentos.retention.redaction import Redaction
from git_agentos.util.values import count

_OWN = ("refs/heads/", "refs/tags/")  # what has them is the user's to rewrite


def drop_fetched(context: OpenWorktree, redaction: Redaction, progress: Progress, *, dry_run: bool = False) -> None:
    """Drop the refs of fleets that lead to what is to be forgotten."""
    location, repository = context.location, context.repository
    fetched = refs.list_refs(location, names.FETCHED, skip_broken=True)
    own = [f"^{oid}" for prefix in _OWN for oid in refs.list_refs(location, prefix, skip_broken=True).values()]
    if not fetched or not _reached(repository, redaction, list(fetched.values()), own):
        return
    found: dict[tuple[str, str], int] = {}
    for ref, tip in sorted(fetched.items()):
        commits = _reached(repository, redaction, [tip], own)
        if not commits:
            continue
        parsed = names.parse_fetched(ref)
        if parsed is not None:
            key = (parsed[0], parsed[1].fleet)
            found[key] = found.get(key, 0) + 1
        if not dry_run:
            progress.replaces(location, commits)
            refs.drop(location, ref, tip)
    for (remote, fleet), number in found.items():
        progress.unreachable.append(
            f"{count(number, 'ref')} of the fleet '{fleet}' on the remote '{remote}': what was fetched is dropped here,"
            f" and the next 'git agentos fleet status {fleet}' fetches it again, unless the refs below"
            f" '{names.PREFIX}{fleet}/' are deleted there ('git push {remote} --delete REF')"
        )


def _reached(repository: Repository, redaction: Redaction, tips: list[str], without: list[str]) -> list[str]:
    """The commits that some commits reach, and those of `without` do not; none where nothing among what they reach is
    to be forgotten."""
    wanted = "".join(f"{tip}\n" for tip in [*tips, *without])
    args = ("rev-list", "--objects", "--missing=allow-any", "--stdin")
    rows = [row.partition(b" ") for row in repository.git(*args, data=wanted.encode()).split(b"\n") if row]
    oids = [oid.decode("ascii") for oid, _, _ in rows]
    if not redaction.affected.keys() & oids and not redaction.matching({path for _, _, path in rows if path}):
        return []
    return [oid for oid, (_, between, _) in zip(oids, rows, strict=True) if not between]
