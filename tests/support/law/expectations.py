"""What a restore promises, as comparisons of complete states.

Ignored files are no part of a checkpoint (docs/restore.md): a path that either state calls ignored is left out of the
comparison, and with it an empty directory that would be one but for such a path. Permission bits are compared where git
reported the path as changed; elsewhere a checkpoint, which costs what changed, knows of the execute bit only. The same
goes for line ends where attributes convert them: a file that git calls unmodified comes back as it is checked out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from tests.support.repo import Repo, git_run
from tests.support.state import Branches, File, Permissions, State, assert_same, complete_state

_OWN_BRANCH = ("rebase-merge/", "rebase-apply/", "BISECT_")


@dataclass(frozen=True)
class Snapshot:
    """A complete state, which of its paths git ignored there, and whether attributes may convert line ends."""

    state: State
    ignored: frozenset[bytes]
    converts: bool = False

    @property
    def changed(self) -> frozenset[bytes]:
        """The paths that `git status` names."""
        found = set()
        for line in self.state.status.split(b"\0"):
            fields = {b"1": 8, b"u": 10, b"?": 1}.get(line[:1])
            if fields is not None:
                found.add(line.split(b" ", fields)[fields])
        return frozenset(found)


def snapshot(repo: Repo, *, strict: bool = False, converts: bool = False) -> Snapshot:
    """The state now."""
    state = complete_state(repo.path, strict=strict)
    asked = b"\0".join([*state.files, *(path for path in state.nested)])
    found = git_run(repo.path, "check-ignore", "-z", "--stdin", stdin=asked).stdout if asked else b""
    # git answers nothing of a file in the place of a tracked folder: what it neither tracks nor shows is ignored.
    known = {entry.path for entry in state.index}
    known |= {line[2:].rstrip(b"/") for line in state.status.split(b"\0") if line[:2] == b"? "}
    passed_over = {path for path, file in state.files.items() if file.kind != "empty directory"} - known
    passed_over |= state.nested.keys() - known
    return Snapshot(state, (frozenset(found.split(b"\0")) | passed_over) - {b""}, converts)


def _same(
    then: Snapshot,
    wanted: State,
    found: State,
    what: str,
    *,
    branch: Branches = "exact",
    status: bool = True,
    permissions: Permissions = "executable",
) -> None:
    """`assert_same` for what was seen `then`."""
    if then.converts:
        unmodified = {entry.path for entry in then.state.index} - then.changed
        wanted, found = (_with_unix_line_ends(state, unmodified) for state in (wanted, found))
        # git says "modified" of a file whose cached size is another, though `add` would store what is there.
        status = False
    assert_same(wanted, found, what, branch=branch, status=status, permissions=permissions)


def _with_unix_line_ends(state: State, paths: Collection[bytes]) -> State:
    files = {
        path: replace(file, data=file.data.replace(b"\r\n", b"\n")) if path in paths and file.kind == "file" else file
        for path, file in state.files.items()
    }
    return replace(state, files=files)


def _without(state: State, ignored: Collection[bytes]) -> State:
    """`state` without those paths, and without empty directories that are above one of them."""
    files = {
        path: file
        for path, file in state.files.items()
        if path not in ignored
        and not (file.kind == "empty directory" and any(gone.startswith(path + b"/") for gone in ignored))
    }
    return replace(state, files=files, nested={path: s for path, s in state.nested.items() if path not in ignored})


def _known_permissions(state: State, changed: Collection[bytes]) -> State:
    """`state` with the permissions of paths that did not change cut down to the execute bit."""
    files = {
        path: file if path in changed and file.kind == "file" else replace(file, permissions=file.permissions & 0o100)
        for path, file in state.files.items()
        if file.kind != "empty directory"
    }
    empty = {path: replace(f, permissions=0) for path, f in state.files.items() if f.kind == "empty directory"}
    return replace(state, files={**files, **empty})


def _comparable(then: Snapshot, before: Snapshot, now: Snapshot) -> tuple[State, State]:
    """The states then and now, cut down to what must be equal after a restore that began at `before`.

    A file that was ignored before the restore, and that the checkpoint does not have, is nobody's to remove: it may
    stay, and comes to light where the checkpoint's rules do not ignore it.
    """
    there, here = ({*seen.state.files, *seen.state.nested} for seen in (then, now))
    came_to_light = {path for path in before.ignored if path not in there and path in here}
    ignored = then.ignored | now.ignored | came_to_light
    shown = {path + end for path in came_to_light for end in (b"", b"/")}
    lines = [line for line in now.state.status.split(b"\0") if line[:2] != b"? " or line[2:] not in shown]
    return (
        _known_permissions(_without(then.state, ignored), then.changed),
        _known_permissions(_without(replace(now.state, status=b"\0".join(lines)), ignored), then.changed),
    )


def restored(then: Snapshot, before: Snapshot, now: Snapshot, what: str) -> None:
    """A default restore: everything is as it was, but for the branch's name."""
    wanted, found = _comparable(then, before, now)
    _same(then, wanted, found, what, branch="any", permissions="all")


def undone(then: Snapshot, before: Snapshot, now: Snapshot, what: str, *, on_branch: bool, exact: bool) -> None:
    """An undo: the state before the restore; `exact` where nothing happened since."""
    wanted, found = (then.state, now.state) if exact else _comparable(then, before, now)
    _same(then, wanted, found, what, branch="exact" if on_branch else "any", permissions="all")


def restored_in_place(then: Snapshot, before: Snapshot, now: Snapshot, what: str) -> None:
    """`--no-branch`: HEAD stays; the operation comes back where HEAD is its commit, else stays as it is."""
    wanted, found = _comparable(then, before, now)
    here, there = before.state.head, then.state.head
    fits = here.oid == there.oid and not (_detaches_head(then.state) and here.branch is not None)
    source = then.state if fits else before.state
    wanted = replace(wanted, head=here, operation=source.operation, bisect=source.bisect)
    _same(then, wanted, found, what, status=here.oid == there.oid, permissions="all")


def _detaches_head(state: State) -> bool:
    return any(name.startswith(_OWN_BRANCH) for name in state.operation)


def restored_keeping_new(then: Snapshot, before: Snapshot, now: Snapshot, what: str) -> None:
    """`--keep-new`: all that was there then, and of what came since whatever is not in the way."""
    wanted, found = _comparable(then, before, now)
    extra = {
        path: file
        for path, file in before.state.files.items()
        if path not in then.state.files
        and file.kind != "empty directory"
        and not _in_the_way(path, then.state.files)
        and not any(path.startswith(nested + b"/") or nested.startswith(path + b"/") for nested in then.state.nested)
    }
    for path, file in extra.items():
        assert path in now.state.files, f"{what}: {path!r} is gone"
        if not before.converts:
            assert now.state.files[path].data == file.data, f"{what}: {path!r} changed"
    kept_below = {path for path in wanted.files if any(new.startswith(path + b"/") for new in before.state.files)}
    wanted = replace(wanted, files={p: f for p, f in wanted.files.items() if p not in kept_below})
    found = replace(found, files={p: f for p, f in found.files.items() if p in wanted.files})
    nested = {path: state for path, state in found.nested.items() if path in wanted.nested}
    _same(then, wanted, replace(found, nested=nested), what, branch="any", status=False, permissions="all")


def _in_the_way(path: bytes, files: Mapping[bytes, File]) -> bool:
    return any(other == path or other.startswith(path + b"/") or path.startswith(other + b"/") for other in files)


def restored_path(then: Snapshot, before: Snapshot, now: Snapshot, path: bytes, what: str) -> None:
    """`PATH`: there as it was then; everywhere else, and HEAD, as it was before."""
    ignored = then.ignored | before.ignored | now.ignored
    old, was, new = (_known_permissions(_without(seen.state, ignored), then.changed) for seen in (then, before, now))
    _same_part(then, old, new, what, lambda other: _below(other, path))
    # Elsewhere: what had to make room above the path is not asked for, nor which directories became empty.
    _same_part(
        before, was, new, what + ", elsewhere", lambda other: not _below(other, path) and not _below(path, other)
    )
    head = replace(was, files={}, index=(), nested={})
    assert_same(head, replace(new, files={}, index=(), nested={}), what, status=False)


def _same_part(seen: Snapshot, before: State, after: State, what: str, concerned: Callable[[bytes], bool]) -> None:
    parts = [
        replace(
            state,
            files={p: f for p, f in state.files.items() if concerned(p) and f.kind != "empty directory"},
            index=tuple(entry for entry in state.index if concerned(entry.path)),
            nested={p: inner for p, inner in state.nested.items() if concerned(p)},
        )
        for state in (before, after)
    ]
    found = replace(parts[0], files=parts[1].files, index=parts[1].index, nested=parts[1].nested)
    _same(seen, parts[0], found, what, status=False, permissions="all")


def _below(path: bytes, top: bytes) -> bool:
    return path == top or path.startswith(top + b"/")


_RESTORE_BRANCH = re.compile(r"refs/heads/restore/[0-9a-f]{8}/\d{8}T\d{6}Z(-\d+)?")


def refs_kept(before: State, after: State, what: str) -> None:
    """No ref of the user's came, went or moved."""
    users = [{n: o for n, o in state.refs.items() if not _RESTORE_BRANCH.fullmatch(n)} for state in (before, after)]
    assert users[0] == users[1], what
    for name, oid in before.refs.items():
        assert after.refs.get(name) == oid, f"{what}: {name}"
