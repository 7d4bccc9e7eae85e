"""The ids of checkpoints that were written again: which one a former id means now. This docstring is the specification.

    <common dir>/agentos/renamed    one line for each: former id, space, new id

`forget --path` and `--secret` write checkpoints again, which gives them other ids. The line is written before the
timeline moves. So the id on the right may be on no timeline, if the command was killed: then the one on the left still
is. An id on the right may be on the left of another line: it was written again later.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping

from git_agentos.errors import AgentosWarning
from git_agentos.git.location import Location
from git_agentos.git.repository import Repository
from git_agentos.util import directories, files

_NAME = "renamed"


def read(location: Location) -> dict[str, str]:
    """Former id -> the id that took its place."""
    try:
        data = files.read(os.path.join(location.shared_state_dir, _NAME), limit=1 << 30)
    except OSError:
        return {}
    pairs = (line.split(" ") for line in data.decode("ascii", "replace").splitlines())
    is_oid = location.hash.is_oid
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2 and is_oid(pair[0]) and is_oid(pair[1])}


def add(location: Location, pairs: Mapping[str, str]) -> None:
    """Record new ids, durably. The lock on forgetting must be held."""
    known = read(location)
    if all(known.get(old) == new for old, new in pairs.items()):
        return
    known.update(pairs)
    path = os.path.join(directories.make_own(location.shared_state_dir), _NAME)
    files.replace(path, "".join(f"{old} {new}\n" for old, new in known.items()).encode("ascii"), mode=0o644)


def current(repository: Repository, oid: str) -> str:
    """The id that a checkpoint has now; the same where it was not written again."""
    return newest(repository, read(repository.location), oid)


def newest(repository: Repository, known: Mapping[str, str], oid: str) -> str:
    """The same, with what `read` returned. An id that does not exist was never used."""
    seen = {oid}
    found = oid
    while (after := known.get(oid)) is not None and after not in seen:
        seen.add(after)
        oid = after
        if repository.exists(oid):
            found = oid
    return found


def follow(repository: Repository, oid: str) -> str:
    """`current`, with a warning where the id is another one."""
    found = current(repository, oid)
    if found != oid:
        say(oid, found)
    return found


def say(old: str, new: str) -> None:
    """Warn that another id is used than the one that was given."""
    text = f"checkpoint {old[:12]} was rewritten by 'git agentos forget': {new[:12]} took its place"
    warnings.warn(AgentosWarning(text), stacklevel=3)
