"""Requests for approval, and what was decided about them.

    <common dir>/agentos/approvals/
      requests/<id>.json   what waits: an operation, its command line, where, at which HEAD, with what, who asks
      grants/<id>.json     what was decided about it: granted or denied, by whom, until when; with a copy of the request
      used/<id>.json       that a grant was used, and by which process: a grant is good for one run
      used/<id>.told       that a harness was told so; whoever then starts the command uses it
      running/<process>    the grant that a running process used: it and all below it have passed

Files are whole or not there, and none is ever changed (`approval_files`): so a grant cannot be used twice, and a kill
leaves nothing half done. The id is made from what is asked (`requests`): one and the same question has one id, and
another question cannot take its place.

A grant is bound to everything that a request says about what will run, by the copy that it holds: command line, folder,
worktree, HEAD (commit and branch), agent, environment, configuration, a harness's whole text. It counts only while the
request is still there as it was. A request without a code, as from a sandbox where there is no key, counts only if its
digests are those of its own words. In a sandbox, a grant is believed because the folder that it lies in cannot be
written from there (`guard.sandbox`).

What was denied stays denied; the same may be asked again once that is as old as a grant may become.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from git_agentos.errors import GuardError, PolicyError, UsageError
from git_agentos.guard import signing
from git_agentos.guard.approval import documents, requests
from git_agentos.guard.approval.documents import Store, store
from git_agentos.guard.approval.requests import Asked, digest
from git_agentos.process import table
from git_agentos.process.table import Process
from git_agentos.util import times

__all__ = [
    "DENIED", "EXPIRED", "GRANTED", "PENDING", "USED", "Approval", "Asked", "Pass", "Store", "deny", "digest", "every",
    "find", "find_grant", "grant", "listed", "passes", "pending", "request", "store", "tell", "use",
]  # fmt: skip

PENDING, GRANTED, DENIED, USED, EXPIRED = "pending", "granted", "denied", "used", "expired"
_MOST_NUMBERS = 1 << 12


@dataclass(frozen=True)
class Approval:
    """A request and what became of it; the fields are the keys of the JSON kind `approval`.

    `state` is `pending`, `granted`, `denied`, `used` or `expired`. Times are ISO 8601, UTC. `note` is what was said
    with the decision. `environment`, `configuration` and `text` are as in `Asked`; `signed` tells whether the request
    carries a code by the user's key.
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
    environment: list[str] = field(default_factory=list)
    configuration: list[str] = field(default_factory=list)
    text: str | None = None
    signed: bool = True


class _Filed(NamedTuple):
    """A request as it was read once: what it asks, the whole document, and what became of it."""

    asked: Asked
    document: Mapping[str, Any]
    approval: Approval


class Pass(NamedTuple):
    """A grant that a running process used: its id, and the digest of the command line that it was given for."""

    id: str
    bound: str


# -- asking ------------------------------------------------------------------------------------------------------------


def request(place: Store, asked: Asked, *, by_harness: bool = False) -> Approval:
    """The request for `asked`: the one that waits, is granted or was denied, or a new one."""
    documents.forget(place)
    for each in _every(place):
        if requests.is_same(each.asked, asked) and _stands(place, each.approval, by_harness):
            return each.approval
    if place.key is None and not requests.is_self_evident(asked):
        raise GuardError(
            "it cannot be asked for from here: a part of it is a secret or very long, and a request without a code has"
            " to show all",
            "leave the secret to a credential helper or a file, or run it where the key of git-agentos can be read",
        )
    for number in range(_MOST_NUMBERS):
        id_ = requests.request_id(asked, number)
        # Looked for before it is read: one that somebody files in between is read, and none is taken for unreadable.
        is_new = not os.path.lexists(documents.path(place, "requests", id_))
        if is_new:
            body = {
                **asked._asdict(), "number": number, "created_at": documents.stamp(place.clock()),
            }  # fmt: skip
            documents.put(place, "requests", id_, body)
        found = _read(place, id_)
        if found is not None and _stands(place, found.approval, by_harness):
            return found.approval
        if is_new and found is None:
            raise GuardError("no request for approval can be filed", f"it is too long, or '{place.folder}' was changed")
    raise GuardError("no request for approval can be filed", f"look into '{place.folder}'")


def find_grant(place: Store, asked: Asked, *, by_harness: bool = False) -> Approval | None:
    """A grant for `asked` that can still be used; None where there is none."""
    for each in _every(place):
        granted = each.approval.state == GRANTED and requests.is_same(each.asked, asked)
        if granted and _stands(place, each.approval, by_harness):
            return each.approval
    return None


def _stands(place: Store, found: Approval, by_harness: bool) -> bool:
    """Whether a request is the answer to the same question now."""
    if found.state == DENIED:
        return not _is_over(place, found)
    told = by_harness and os.path.lexists(documents.path(place, "used", found.id, ".told"))
    return found.state in (PENDING, GRANTED) and not told


def use(place: Store, approval: Approval, process: Process) -> bool:
    """Use a grant up, for `process` and all that it starts; false where somebody else has used it meanwhile."""
    found = _read(place, approval.id)
    if found is None or found.approval.state != GRANTED:
        return False
    body = {
        "pid": process.pid, "start": process.start, "bound": found.asked.bound, "boot": documents.boot(),
        "folder": place.folder,
    }  # fmt: skip
    if not documents.put(place, "used", approval.id, body):
        return False
    documents.drop_ended(place)
    documents.put(place, "running", documents.name(process), {**body, "id": approval.id})
    return True


def leave(common_dir: str, process: Process) -> None:
    """End what a grant let pass in `process`, which lives on."""
    place = Store(os.path.join(common_dir, "agentos", "approvals"), None)
    with contextlib.suppress(OSError):
        os.unlink(documents.path(place, "running", documents.name(process)))


def tell(place: Store, approval: Approval) -> bool:
    """Note that a harness was told that it may go ahead, once; false where one was told before."""
    return documents.put(place, "used", approval.id, {}, end=".told")


def passes(common_dir: str, pid: int, environment: Mapping[str, str]) -> Pass | None:
    """The grant that `pid` or a process above it used; None where none did. Cheap where nothing was ever granted."""
    folder = os.path.join(common_dir, "agentos", "approvals")
    try:
        names = set(os.listdir(os.path.join(folder, "running")))
    except OSError:
        return None
    place: Store | None = None
    for each in (pid, *table.parents(pid)) if names else ():
        process = table.identify(each)
        if process is None or documents.file_name(documents.name(process)) not in names:
            continue
        place = place or Store(folder, signing.key(environment, make=False))
        body = documents.load(place, "running", documents.name(process))
        if body is not None and (body.get("boot"), body.get("folder")) == (documents.boot(), folder):
            id_ = str(body.get("id"))
            granted = documents.load(place, "grants", id_)
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
    filed = _find(place, spec)
    found = filed.approval
    if found.state == decision:
        return found
    if place.key is None:
        raise GuardError(
            "the key that approvals are made with cannot be read or made",
            "it is 'git-agentos/key' in your configuration folder; git agentos doctor --fix replaces a damaged one",
        )
    if found.state == GRANTED:  # and is to be denied: used up by nobody, it is good for nothing any more
        documents.put(
            place, "used", found.id, {"denied": True, "by": by, "at": documents.stamp(place.clock()), "note": note}
        )
        return find(place, found.id)
    if found.state != PENDING:
        what = {DENIED: "was denied", USED: "was granted, and used", EXPIRED: "has expired"}[found.state]
        hint = "run the command again to make a new request" + (
            " when the denial has expired" if found.state == DENIED else ""
        )
        raise PolicyError(f"request {found.id} {what}", hint)
    now = place.clock()
    body = {"decision": decision, "by": by, "at": documents.stamp(now), "until": now + place.expiry, "note": note}
    body["request"] = filed.document  # what was shown, and nothing that lies there by now
    if not documents.put(place, "grants", found.id, body):
        raise PolicyError(f"request {found.id} was decided by somebody else meanwhile", "git agentos approvals list")
    return find(place, found.id)


# -- looking -----------------------------------------------------------------------------------------------------------


def every(place: Store) -> list[Approval]:
    """All requests, the newest first; files that are none, or that somebody changed, are left out."""
    return [each.approval for each in _every(place)]


def _every(place: Store) -> list[_Filed]:
    names: set[str] = set()
    for kind in ("requests", "grants"):
        with contextlib.suppress(OSError):
            names.update(os.listdir(os.path.join(place.folder, kind)))
    found = [_read(place, name.removesuffix(".json")) for name in names if name.endswith(".json")]
    return sorted(
        (each for each in found if each is not None),
        key=lambda each: (each.approval.created_at, each.approval.id),
        reverse=True,
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
    return _find(place, spec).approval


def _find(place: Store, spec: str) -> _Filed:
    if len(spec) < 4 or spec.strip("0123456789abcdef"):
        raise UsageError(
            f"'{spec}' is not the id of a request", "give at least 4 digits of one that 'approvals list' shows"
        )
    matching = [each for each in _every(place) if each.approval.id.startswith(spec)]
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


def _read(place: Store, id_: str) -> _Filed | None:
    """A request, read once. What was decided about one is told by the copy that the decision holds."""
    document = documents.load(place, "requests", id_, sealed=False)
    decision = documents.load(place, "grants", id_)
    copy = decision.get("request") if decision is not None else None
    if decision is not None and isinstance(copy, dict):
        if decision.get("decision") == GRANTED and copy != document:
            return None  # it was changed since
        document = copy
    asked = requests.from_document(document) if document is not None else None
    if document is None or asked is None or requests.request_id(asked, document["number"]) != id_:
        return None
    signed = document.get("mac") is not None
    if not signed and place.key is not None and not requests.is_self_evident(asked):
        return None
    found = Approval(
        id=id_,
        operation=asked.operation,
        argv=list(asked.argv),
        head=asked.head,
        worktree_path=asked.worktree,
        agent_id=asked.agent,
        state=PENDING,
        created_at=document["created_at"],
        operations=list(asked.operations),
        branch=asked.branch,
        cwd=asked.cwd,
        reason=asked.reason or None,
        instead=asked.instead or None,
        checkpoint=asked.checkpoint,
        environment=list(asked.environment),
        configuration=list(asked.configuration),
        text=asked.text,
        signed=signed,
    )
    return _Filed(asked, document, _with_decision(place, found, decision))


def _with_decision(place: Store, found: Approval, decided: Mapping[str, Any] | None) -> Approval:
    if decided is None or not isinstance(decided.get("request"), dict):
        return found
    try:
        until = float(decided["until"])
        state = GRANTED if decided["decision"] == GRANTED else DENIED
        values = {
            "decided_at": str(decided["at"]),
            "decided_by": str(decided["by"]),
            "note": decided.get("note"),
            "expires_at": documents.stamp(until),
        }
    except (KeyError, TypeError, ValueError, OverflowError, OSError):
        return found
    if state == GRANTED and os.path.lexists(documents.path(place, "used", found.id)):
        used = documents.load(place, "used", found.id) or {}
        state = DENIED if used.get("denied") else USED
        if state == DENIED:
            values |= {"decided_at": used.get("at"), "decided_by": used.get("by"), "note": used.get("note")}
    elif state == GRANTED and place.clock() >= until:
        state = EXPIRED
    return Approval(**{**asdict(found), **values, "state": state})


def _is_over(place: Store, denied: Approval) -> bool:
    """Whether a denial is so old that the same may be asked again."""
    decided = times.to_seconds(denied.decided_at) if denied.decided_at else 0.0
    return place.clock() >= decided + place.expiry
