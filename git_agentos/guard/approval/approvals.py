"""Approval requests, and the decisions about them.

    <common dir>/agentos/approvals/
      requests/<id>.json   a request: operation, command line, folder, HEAD, environment, agent (`requests`)
      grants/<id>.json     the decision: granted or denied, by whom, until when; with a copy of the request
      used/<id>.json       that a grant was used, and by which process: a grant is good for one run
      used/<id>.told       that a harness has received the grant; the command that it then starts uses the grant
      running/<process>    the grant that a running process has used: it covers the process and all below it

No file is ever changed (`documents`): so a grant cannot be used twice, and a kill leaves nothing half done. The id of a
request is made from its content: the same request has the same id, and no other request can take its place.

A grant is bound to everything in the copy of the request that it holds: command line, folder, worktree, HEAD (commit
and branch), agent, environment, configuration, a harness's whole text. It counts only while the request is unchanged. A
request without a MAC, as from a sandbox where there is no key, counts only if its digests are those of its own words.
In a sandbox, a grant counts because nobody there can write to its folder (`guard.exec.sandbox`).

A denial holds for as long as a grant would; after that, the same request can be filed again.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from git_agentos.errors import GuardError, PolicyError, UsageError
from git_agentos.guard import signing
from git_agentos.guard.approval import documents, requests
from git_agentos.guard.approval.documents import Store, open_store
from git_agentos.guard.approval.requests import ApprovalRequest, command_digest
from git_agentos.process import table
from git_agentos.process.table import Process
from git_agentos.util import times
from git_agentos.util.named_tuple import NamedTuple

__all__ = [
    "DENIED", "EXPIRED", "GRANTED", "PENDING", "USED", "ActiveGrant", "Approval", "ApprovalRequest", "Store",
    "active_grant", "command_digest", "deny", "end_use", "file_request", "find", "find_grant", "grant",
    "note_harness_use", "open_only", "open_store", "pending", "read_all", "use",
]  # fmt: skip

PENDING, GRANTED, DENIED, USED, EXPIRED = "pending", "granted", "denied", "used", "expired"
_MAX_NUMBER = 1 << 12
_LIST = "git agentos approvals list"


class Approval(NamedTuple):
    """A request with its state; the fields are the keys of the JSON kind `approval`. Times are ISO 8601, UTC."""

    id: str  # of the request
    operation: str  # the first of `operations`
    argv: list[str]  # the command line, without secrets
    head: str | None  # HEAD's commit; None while unborn
    worktree_path: str  # the worktree in which the command was given
    agent_id: str  # who asks
    state: str  # pending, granted, denied, used or expired
    created_at: str  # when it was filed
    operations: Sequence[str] = ()  # everything that the command does
    branch: str | None = None  # full name; None if HEAD is detached
    cwd: str | None = None  # the folder in which the command was given
    reason: str | None = None  # why it needs approval
    instead: str | None = None  # what the agent could do instead
    checkpoint: str | None = None  # the state before, where it was saved
    decided_at: str | None = None  # when it was granted or denied
    decided_by: str | None = None  # who granted or denied it
    expires_at: str | None = None  # when the request or the grant ends
    note: str | None = None  # the message of the decision
    environment: Sequence[str] = ()  # as in `ApprovalRequest`
    configuration: Sequence[str] = ()  # as in `ApprovalRequest`
    text: str | None = None  # as in `ApprovalRequest`
    signed: bool = True  # whether the request has a MAC


class _Filed(NamedTuple):
    """A request that was read: its content, the whole document, and its state."""

    request: ApprovalRequest
    document: Mapping[str, Any]
    approval: Approval


class ActiveGrant(NamedTuple):
    """A grant that a running process has used: its id, and the digest of the command line that it was given for."""

    id: str
    command_digest: str


# -- requests and their use --------------------------------------------------------------------------------------------


def file_request(
    store: Store,
    request: ApprovalRequest,
    *,
    by_harness: bool = False,
    on_new: Callable[[Approval], None] = lambda _: None,
) -> Approval:
    """The approval for `request`: one that is pending, granted or denied, or a new one, for which `on_new` is called:
    once, whoever else files the same."""
    documents.prune(store)
    for each in _read_all(store):
        if requests.is_same(each.request, request) and _is_current(store, each.approval, by_harness):
            return each.approval
    if store.key is None and not requests.shows_all(request):
        raise GuardError(
            "no request can be filed from here: a part of it is a secret or very long, and a request without a MAC has"
            " to show everything",
            "leave the secret to a credential helper or a file, or run it where the key of git-agentos can be read",
        )
    for number in range(_MAX_NUMBER):
        id_ = requests.request_id(request, number)
        # Tested before it is read: a request that another process files in between is read, not taken for unreadable.
        is_new, is_ours = not os.path.lexists(documents.path(store, "requests", id_)), False
        if is_new:
            created_at = times.seconds_to_text(store.clock())
            body = {**requests.to_document(request), "number": number, "created_at": created_at}
            is_ours = documents.create(store, "requests", id_, body)
        filed = _read(store, id_)
        if filed is not None and _is_current(store, filed.approval, by_harness):
            if is_ours:
                on_new(filed.approval)
            return filed.approval
        if is_new and filed is None:
            raise GuardError("the approval request cannot be filed", f"it is too long, or '{store.folder}' was changed")
    raise GuardError("the approval request cannot be filed", f"look into '{store.folder}'")


def find_grant(store: Store, request: ApprovalRequest, *, by_harness: bool = False) -> Approval | None:
    """A grant for `request` that was not used; None where there is none."""
    for each in _read_all(store):
        is_granted = each.approval.state == GRANTED and requests.is_same(each.request, request)
        if is_granted and _is_current(store, each.approval, by_harness):
            return each.approval
    return None


def _is_current(store: Store, approval: Approval, by_harness: bool) -> bool:
    """Whether an approval still holds for the next run of its command."""
    if approval.state == DENIED:
        return not _is_denial_over(store, approval)
    was_used = by_harness and os.path.lexists(documents.path(store, "used", approval.id, ".told"))
    return approval.state in (PENDING, GRANTED) and not was_used


def _is_denial_over(store: Store, denied: Approval) -> bool:
    """Whether a denial is so old that the same request can be filed again."""
    decided = times.to_seconds(denied.decided_at) if denied.decided_at else 0.0
    return store.clock() >= decided + store.expiry


def use(store: Store, approval: Approval, process: Process) -> bool:
    """Use a grant for `process` and all that it starts; false where another process has used it."""
    filed = _read(store, approval.id)
    if filed is None or filed.approval.state != GRANTED:
        return False
    body = {
        "pid": process.pid, "start": process.start, "bound": filed.request.command_digest,
        "boot": table.boot_id(), "folder": store.folder,
    }  # fmt: skip
    if not documents.create(store, "used", approval.id, body):
        return False
    documents.prune_ended(store)
    documents.create(store, "running", documents.process_name(process), {**body, "id": approval.id})
    return True


def end_use(common_dir: str, process: Process) -> None:
    """End what a grant covers in `process`, which keeps running."""
    store = Store(os.path.join(common_dir, "agentos", "approvals"), None)
    with contextlib.suppress(OSError):
        os.unlink(documents.path(store, "running", documents.process_name(process)))


def note_harness_use(store: Store, approval: Approval) -> bool:
    """Record that a harness has received a grant; false if one had received it before."""
    return documents.create(store, "used", approval.id, {}, suffix=".told")


def active_grant(common_dir: str, pid: int, environment: Mapping[str, str]) -> ActiveGrant | None:
    """The grant that `pid` or a process above it has used; None where none has."""
    folder = os.path.join(common_dir, "agentos", "approvals")
    try:
        names = set(os.listdir(os.path.join(folder, "running")))
    except OSError:
        return None
    store: Store | None = None
    for each in (pid, *table.parents(pid)) if names else ():
        process = table.identify(each)
        if process is None or f"{documents.process_name(process)}.json" not in names:
            continue
        store = store or Store(folder, signing.key(environment, make=False))
        body = documents.read(store, "running", documents.process_name(process))
        if body is not None and (body.get("boot"), body.get("folder")) == (table.boot_id(), folder):
            id_ = str(body.get("id"))
            granted = documents.read(store, "grants", id_)
            if granted is not None and granted.get("decision") == GRANTED:
                return ActiveGrant(id_, str(body.get("bound")))
    return None


# -- decisions ---------------------------------------------------------------------------------------------------------


def grant(store: Store, spec: str, *, by: str) -> Approval:
    """Grant a request, for one run within `store.expiry` seconds. PolicyError where it was denied."""
    return _decide(store, spec, GRANTED, by, None)


def deny(store: Store, spec: str, *, by: str, note: str | None = None) -> Approval:
    """Deny a request, or withdraw a grant that was not used."""
    return _decide(store, spec, DENIED, by, note)


def _decide(store: Store, spec: str, decision: str, by: str, note: str | None) -> Approval:
    filed = _find(store, spec)
    approval = filed.approval
    if approval.state == decision:
        return approval
    if store.key is None:
        raise GuardError(
            "the key for grants cannot be read or created",
            "it is 'git-agentos/key' in your configuration folder; git agentos doctor --fix replaces a damaged one",
        )
    now = store.clock()
    if approval.state == GRANTED:  # and is to be denied: a grant that was used is good for nothing any more
        body = {"denied": True, "by": by, "at": times.seconds_to_text(now), "note": note}
        documents.create(store, "used", approval.id, body)
        return find(store, approval.id)
    if approval.state != PENDING:
        state = {DENIED: "was denied", USED: "was granted, and used", EXPIRED: "has expired"}[approval.state]
        hint = "run the command again to make a new request"
        raise PolicyError(
            f"request {approval.id} {state}",
            f"{hint} when the denial has expired" if approval.state == DENIED else hint,
        )
    body = {
        "decision": decision, "by": by, "at": times.seconds_to_text(now), "until": now + store.expiry, "note": note,
        "request": filed.document,  # what was shown: the file may have changed since
    }  # fmt: skip
    if not documents.create(store, "grants", approval.id, body):
        raise PolicyError(f"somebody else has decided about request {approval.id}", _LIST)
    return find(store, approval.id)


# -- reading -----------------------------------------------------------------------------------------------------------


def read_all(store: Store) -> list[Approval]:
    """All requests, the newest first, without files that are damaged or were changed."""
    return [each.approval for each in _read_all(store)]


def _read_all(store: Store) -> list[_Filed]:
    names: set[str] = set()
    for kind in ("requests", "grants"):
        with contextlib.suppress(OSError):
            names.update(os.listdir(os.path.join(store.folder, kind)))
    filed = [_read(store, name.removesuffix(".json")) for name in names if name.endswith(".json")]
    return sorted(
        (each for each in filed if each is not None),
        key=lambda each: (each.approval.created_at, each.approval.id),
        reverse=True,
    )


def open_only(approvals: Sequence[Approval]) -> list[Approval]:
    """Those that are pending, or granted and not used."""
    return [each for each in approvals if each.state in (PENDING, GRANTED)]


def pending(common_dir: str, environment: Mapping[str, str]) -> list[Approval]:
    """The pending requests, the newest first. No file or folder is created."""
    if not os.path.isdir(os.path.join(common_dir, "agentos", "approvals", "requests")):
        return []
    return [each for each in read_all(open_store(common_dir, environment, create=False)) if each.state == PENDING]


def find(store: Store, spec: str) -> Approval:
    """The request with an id that begins with `spec`, of at least 4 digits."""
    return _find(store, spec).approval


def _find(store: Store, spec: str) -> _Filed:
    if len(spec) < 4 or spec.strip("0123456789abcdef"):
        raise UsageError(f"'{spec}' is not a request id", "give at least 4 digits of one that 'approvals list' shows")
    matching = [each for each in _read_all(store) if each.approval.id.startswith(spec)]
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise GuardError(f"{len(matching)} request ids begin with '{spec}'", "give more digits")
    folder = os.path.join(store.folder, "requests")
    with contextlib.suppress(OSError):
        if any(name.startswith(spec) for name in os.listdir(folder)):
            raise GuardError(
                f"request '{spec}' was changed after it was filed, or another user has filed it",
                f"look into '{folder}'",
            )
    raise GuardError(f"there is no request '{spec}'", _LIST)


def _read(store: Store, id_: str) -> _Filed | None:
    """A request. Once it is decided, the copy in the decision counts; None where that differs from a granted
    request."""
    document = documents.read(store, "requests", id_, require_mac=False)
    decision = documents.read(store, "grants", id_)
    copy = decision.get("request") if decision is not None else None
    if decision is not None and isinstance(copy, dict):
        if decision.get("decision") == GRANTED and copy != document:
            return None
        document = copy
    request = requests.from_document(document) if document is not None else None
    if document is None or request is None or requests.request_id(request, document["number"]) != id_:
        return None
    is_signed = document.get("mac") is not None
    if not is_signed and store.key is not None and not requests.shows_all(request):
        return None
    approval = Approval(
        id=id_,
        operation=request.operation,
        argv=list(request.argv),
        head=request.head,
        worktree_path=request.worktree,
        agent_id=request.agent,
        state=PENDING,
        created_at=document["created_at"],
        operations=list(request.operations),
        branch=request.branch,
        cwd=request.cwd,
        reason=request.reason or None,
        instead=request.instead or None,
        checkpoint=request.checkpoint,
        environment=list(request.environment),
        configuration=list(request.configuration),
        text=request.text,
        signed=is_signed,
    )
    return _Filed(request, document, _with_decision(store, approval, decision))


def _with_decision(store: Store, approval: Approval, decision: Mapping[str, Any] | None) -> Approval:
    if decision is None or not isinstance(decision.get("request"), dict):
        return approval
    try:
        until = float(decision["until"])
        state = GRANTED if decision["decision"] == GRANTED else DENIED
        values: dict[str, Any] = {
            "decided_at": str(decision["at"]),
            "decided_by": str(decision["by"]),
            "note": decision.get("note"),
            "expires_at": times.seconds_to_text(until),
        }
    except (KeyError, TypeError, ValueError, OverflowError, OSError):
        return approval
    if state == GRANTED and os.path.lexists(documents.path(store, "used", approval.id)):
        used = documents.read(store, "used", approval.id) or {}
        state = DENIED if used.get("denied") else USED
        if state == DENIED:
            values |= {"decided_at": used.get("at"), "decided_by": used.get("by"), "note": used.get("note")}
    elif state == GRANTED and store.clock() >= until:
        state = EXPIRED
    return approval._replace(state=state, **values)
