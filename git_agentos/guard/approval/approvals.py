"""Requests for approval, and what was decided about them.

    <common dir>/agentos/approvals/
      requests/<id>.json   what waits: an operation, its command line, where, at which HEAD, who asks
      grants/<id>.json     what was decided about it: granted or denied, by whom, until when
      used/<id>.json       that a grant was used, and by which process: a grant is good for one run
      used/<id>.told       that a harness was told so; whoever then starts the command uses it
      running/<process>    the grant that a running process used: it and all below it have passed

Files are whole or not there, and none is ever changed (`guard.approval_files`): so a grant cannot be used twice, and a
kill leaves nothing half done. The id is made from what is asked: one and the same question has one id, and another
question cannot take its place. In a sandbox there is no key: requests have no code there, and a grant is believed
because the folder that it lies in cannot be written from there (`guard.sandbox`).

A request is bound to command line, HEAD (commit and branch), worktree and agent, and to the folder that the command was
given in where that is known. What was denied stays denied; the same may be asked again once that is as old as a grant
may become.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import NamedTuple

from git_agentos.errors import GuardError, PolicyError, UsageError
from git_agentos.guard import ancestry, signing
from git_agentos.guard.ancestry import Process
from git_agentos.guard.approval import approval_files
from git_agentos.guard.approval.approval_files import Store, store

__all__ = [
    "DENIED", "EXPIRED", "GRANTED", "PENDING", "USED", "Approval", "Asked", "Pass", "Store", "deny", "digest", "every",
    "find", "find_grant", "grant", "listed", "passes", "pending", "request", "store", "tell", "use",
]  # fmt: skip

PENDING, GRANTED, DENIED, USED, EXPIRED = "pending", "granted", "denied", "used", "expired"
_ID_DIGITS = 12


class Asked(NamedTuple):
    """What is asked for. `argv` is for people, without the secrets in it; `bound` is the digest of the real one. `cwd`
    is where the command was given, None where that is not known (git goes to the root before it runs a hook);
    `worktree` its root, `head` HEAD's commit there, None while unborn, `branch` the full name of what HEAD points at,
    None when detached."""

    operation: str
    operations: tuple[str, ...]
    argv: tuple[str, ...]
    bound: str
    cwd: str | None
    worktree: str
    head: str | None
    branch: str | None
    agent: str
    reason: str = ""
    instead: str = ""
    checkpoint: str | None = None


@dataclass(frozen=True)
class Approval:
    """A request and what became of it; the fields are the keys of the JSON kind `approval`.

    `state` is `pending`, `granted`, `denied`, `used` or `expired`. Times are ISO 8601, UTC. `note` is what was said
    with the decision.
    """

    id: str
    operation: str
    argv: list[str]
    head: str | None
    worktree_path: str
    agent_id: str
    state: str
    created_at: str
    operations: list[str] = field(default_factory=list)
    branch: str | None = None
    cwd: str | None = None
    reason: str | None = None
    instead: str | None = None
    checkpoint: str | None = None
    decided_at: str | None = None
    decided_by: str | None = None
    expires_at: str | None = None
    note: str | None = None


class Pass(NamedTuple):
    """A grant that a running process used: its id, and the digest of the command line that it was given for."""

    id: str
    bound: str


def digest(argv: Sequence[str]) -> str:
    """What a grant is bound to of a command line: every word of it, however the program is called."""
    words = [os.path.basename(argv[0]), *argv[1:]] if argv else []
    return hashlib.sha256(json.dumps(words).encode("ascii")).hexdigest()


# -- asking ------------------------------------------------------------------------------------------------------------


def request(place: Store, asked: Asked, *, by_harness: bool = False) -> Approval:
    """The request for `asked`: the one that waits, is granted or was denied, or a new one."""
    approval_files.forget(place)
    for number in range(1 << 16):
        id_ = _id(asked, number)
        # Looked for before it is read: one that somebody files in between is read, and none is taken for unreadable.
        if not os.path.lexists(approval_files.path(place, "requests", id_)):
            body = {
                **asked._asdict(), "number": number, "created_at": approval_files.stamp(place.clock()),
            }  # fmt: skip
            approval_files.put(place, "requests", id_, body)
        found = _read(place, id_)
        if found is not None and _stands(place, found, by_harness):
            return found
    raise GuardError("no request for approval can be filed", f"look into '{place.folder}'")


def find_grant(place: Store, asked: Asked, *, by_harness: bool = False) -> Approval | None:
    """A grant for `asked` that can still be used; None where there is none."""
    for each in every(place):
        if each.state == GRANTED and _covers(place, each, asked) and _stands(place, each, by_harness):
            return each
    return None


def _stands(place: Store, found: Approval, by_harness: bool) -> bool:
    """Whether a request is the answer to the same question now."""
    if found.state == DENIED:
        return not _is_over(place, found)
    told = by_harness and os.path.lexists(approval_files.path(place, "used", found.id, ".told"))
    return found.state in (PENDING, GRANTED) and not told


def use(place: Store, approval: Approval, process: Process) -> bool:
    """Use a grant up, for `process` and all that it starts; false where somebody else has used it meanwhile."""
    asked = approval_files.load(place, "requests", approval.id, sealed=False) or {}
    body = {"pid": process.pid, "start": process.start, "bound": asked.get("bound"), "boot": approval_files.boot()}
    if not approval_files.put(place, "used", approval.id, body):
        return False
    approval_files.drop_ended(place)
    approval_files.put(place, "running", approval_files.name(process), {**body, "id": approval.id})
    return True


def leave(common_dir: str, process: Process) -> None:
    """End what a grant let pass in `process`, which lives on."""
    place = Store(os.path.join(common_dir, "agentos", "approvals"), None)
    with contextlib.suppress(OSError):
        os.unlink(approval_files.path(place, "running", approval_files.name(process)))


def tell(place: Store, approval: Approval) -> bool:
    """Note that a harness was told that it may go ahead, once; false where one was told before."""
    return approval_files.put(place, "used", approval.id, {}, end=".told")


def passes(common_dir: str, pid: int, environment: Mapping[str, str]) -> Pass | None:
    """The grant that `pid` or a process above it used; None where none did. Cheap where nothing was ever granted."""
    folder = os.path.join(common_dir, "agentos", "approvals")
    try:
        names = set(os.listdir(os.path.join(folder, "running")))
    except OSError:
        return None
    place: Store | None = None
    for each in (pid, *ancestry.parents(pid)) if names else ():
        process = ancestry.identify(each)
        if process is None or approval_files.file_name(approval_files.name(process)) not in names:
            continue
        place = place or Store(folder, signing.key(environment, make=False))
        body = approval_files.load(place, "running", approval_files.name(process))
        if body is not None and body.get("boot") == approval_files.boot():
            id_ = str(body.get("id"))
            granted = approval_files.load(place, "grants", id_)
            if granted is not None and granted.get("decision") == GRANTED:
                return Pass(id_, str(body.get("bound")))
    return None


# -- deciding ----------------------------------------------------------------------------------------------------------


def grant(place: Store, spec: str, *, by: str) -> Approval:
    """Grant a request, for one run within `place.expiry` seconds. PolicyError where it was denied."""
    return _decide(place, spec, GRANTED, by, None)


def deny(place: Store, spec: str, *, by: str, note: str | None = None) -> Approval:
    """Deny a request, or take a grant back that was not used yet."""
    return _decide(place, spec, DENIED, by, note)


def _decide(place: Store, spec: str, decision: str, by: str, note: str | None) -> Approval:
    found = find(place, spec)
    if found.state == decision:
        return found
    if place.key is None:
        raise GuardError(
            "the key that approvals are made with cannot be read or made",
            "it is 'git-agentos/key' in your configuration folder",
        )
    if found.state == GRANTED:  # and is to be denied: used up by nobody, it is good for nothing any more
        approval_files.put(
            place, "used", found.id, {"denied": True, "by": by, "at": approval_files.stamp(place.clock()), "note": note}
        )
        return find(place, found.id)
    if found.state != PENDING:
        what = {DENIED: "was denied", USED: "was granted, and used", EXPIRED: "has expired"}[found.state]
        hint = "run the command again to make a new request" + (
            " when the denial has expired" if found.state == DENIED else ""
        )
        raise PolicyError(f"request {found.id} {what}", hint)
    now = place.clock()
    body = {"decision": decision, "by": by, "at": approval_files.stamp(now), "until": now + place.expiry, "note": note}
    body["request"] = approval_files.load(place, "requests", found.id)
    if not approval_files.put(place, "grants", found.id, body):
        raise PolicyError(f"request {found.id} was decided by somebody else meanwhile", "git agentos approvals list")
    return find(place, found.id)


# -- looking -----------------------------------------------------------------------------------------------------------


def every(place: Store) -> list[Approval]:
    """All requests, the newest first; files that are none, or that somebody changed, are left out."""
    try:
        names = os.listdir(os.path.join(place.folder, "requests"))
    except OSError:
        return []
    found = [_read(place, name.removesuffix(".json")) for name in names if name.endswith(".json")]
    return sorted(
        (each for each in found if each is not None), key=lambda each: (each.created_at, each.id), reverse=True
    )


def listed(found: Sequence[Approval], *, everything: bool) -> list[Approval]:
    """Those of `found` that wait or can still be used; with `everything`, all."""
    return [each for each in found if everything or each.state in (PENDING, GRANTED)]


def pending(common_dir: str, environment: Mapping[str, str]) -> list[Approval]:
    """What waits to be decided, the newest first; nothing is made where there is nothing."""
    if not os.path.isdir(os.path.join(common_dir, "agentos", "approvals", "requests")):
        return []
    return [each for each in every(store(common_dir, environment, make=False)) if each.state == PENDING]


def find(place: Store, spec: str) -> Approval:
    """The request that a unique beginning (4 digits) of its id names."""
    if len(spec) < 4 or spec.strip("0123456789abcdef"):
        raise UsageError(
            f"'{spec}' is not the id of a request", "give at least 4 digits of one that 'approvals list' shows"
        )
    matching = [each for each in every(place) if each.id.startswith(spec)]
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise GuardError(f"'{spec}' is the beginning of {len(matching)} requests", "give more digits")
    folder = os.path.join(place.folder, "requests")
    with contextlib.suppress(OSError):
        if any(name.startswith(spec) for name in os.listdir(folder)):
            raise GuardError(
                f"request '{spec}' was changed after it was filed, or was not made by this user",
                f"look into '{folder}'",
            )
    raise GuardError(f"there is no request '{spec}'", "git agentos approvals list")


def _read(place: Store, id_: str) -> Approval | None:
    body = approval_files.load(place, "requests", id_, sealed=False)
    if body is None:
        return None
    try:
        values = (tuple(value) if isinstance(value, list) else value for value in map(body.__getitem__, Asked._fields))
        asked = Asked._make(values)
        if _id(asked, int(body["number"])) != id_:
            return None
        found = Approval(
            id=id_,
            operation=asked.operation,
            argv=list(asked.argv),
            head=asked.head,
            worktree_path=asked.worktree,
            agent_id=asked.agent,
            state=PENDING,
            created_at=str(body["created_at"]),
            operations=list(asked.operations),
            branch=asked.branch,
            cwd=asked.cwd,
            reason=asked.reason or None,
            instead=asked.instead or None,
            checkpoint=asked.checkpoint,
        )
    except (KeyError, TypeError, ValueError):
        return None
    return _with_decision(place, found)


def _with_decision(place: Store, found: Approval) -> Approval:
    decided = approval_files.load(place, "grants", found.id)
    if decided is None:
        return found
    try:
        until = float(decided["until"])
        state = GRANTED if decided["decision"] == GRANTED else DENIED
        values = {
            "decided_at": str(decided["at"]),
            "decided_by": str(decided["by"]),
            "note": decided.get("note"),
            "expires_at": approval_files.stamp(until),
        }
    except (KeyError, TypeError, ValueError, OverflowError, OSError):
        return found
    if state == GRANTED and os.path.lexists(approval_files.path(place, "used", found.id)):
        used = approval_files.load(place, "used", found.id) or {}
        state = DENIED if used.get("denied") else USED
        if state == DENIED:
            values |= {"decided_at": used.get("at"), "decided_by": used.get("by"), "note": used.get("note")}
    elif state == GRANTED and place.clock() >= until:
        state = EXPIRED
    return Approval(**{**asdict(found), **values, "state": state})


def _is_over(place: Store, denied: Approval) -> bool:
    """Whether a denial is so old that the same may be asked again."""
    decided = datetime.fromisoformat(denied.decided_at).timestamp() if denied.decided_at else 0.0
    return place.clock() >= decided + place.expiry


def _covers(place: Store, granted: Approval, asked: Asked) -> bool:
    bound = (approval_files.load(place, "requests", granted.id, sealed=False) or {}).get("bound")
    same = (bound, granted.head, granted.branch, granted.worktree_path, granted.agent_id)
    if same != (asked.bound, asked.head, asked.branch, asked.worktree, asked.agent):
        return False
    return granted.cwd is None or asked.cwd is None or granted.cwd == asked.cwd


def _id(asked: Asked, number: int) -> str:
    words = (asked.operation, asked.argv, asked.bound, asked.cwd, asked.worktree, asked.head, asked.branch, asked.agent)
    return hashlib.sha256(json.dumps([*words, number]).encode("ascii")).hexdigest()[:_ID_DIGITS]
