"""Sealing the evidence of a run, so that later changes show, and verifying it.

    manifest.json     {"schema", "run_id", "sealed_at", "files": [{"path", "role", "sha256", "size"}]}: every file but
                      itself; of `events.jsonl`, which grows, the part that existed then
    the checkpoint    trigger `task_complete`, the hash of the manifest in its metadata (`manifest_sha256`), and the
                      whole folder in it as `runs/<run id>/…`: what an archive of the worktree has too
    the last event    `sealed`, which names both

The checkpoint is the anchor: it lies on an append-only timeline, and its id covers its contents. What happens to a
sealed run later (a rollback, an acceptance) is recorded and sealed again.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from git_agentos.checkpoint import format, timeline
from git_agentos.checkpoint.creation import create_checkpoint, write_checkpoint
from git_agentos.checkpoint.model import Metadata
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError, RunError, converted_storage_errors, system_reason
from git_agentos.git import trees
from git_agentos.git.repository import Repository, Writer
from git_agentos.run.context import CONTEXT, attachment_path, worktree_id
from git_agentos.run.events import EVENTS, MANIFEST, REWRITTEN, Event, Run, renamed, state_of, with_current_ids
from git_agentos.run.evidence import Evidence
from git_agentos.run.evidence_copy import write_blob
from git_agentos.run.journal import parse_events
from git_agentos.util import times
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.worktree import layout

META_MANIFEST = "manifest_sha256"
SCHEMA = "agentos.run-manifest.v1"
_TRIGGER = "task_complete"
_ROLES = {
    CONTEXT: "workspace_context",
    EVENTS: "events",
    "spec.json": "spec",
    "environment.json": "environment",
    "stdout": "stdout",
    "stderr": "stderr",
    "exit_code": "exit_code",
    "snapshot.json": "snapshot",
    "diff.patch": "diff",
}
# Keys of events, of the context and of snapshots under which there is a commit, or a list of commits.
_COMMITS = ("base_sha", "head_sha", "checkpoint", "saved", "merge_commit", "commits")


@dataclass(frozen=True)
class Verification:
    """What `run verify` found; the fields are the keys of the JSON kind `run-verify`. `ok` where `problems` is empty;
    `files` is the number of files checked, `commits` that of recorded commits that exist. `rewritten`: `forget` has
    removed something from it since, or from a checkpoint that it names."""

    run_id: str
    ok: bool
    manifest_sha256: str | None
    final_checkpoint: str | None
    files: int
    commits: int
    problems: list[str]
    rewritten: bool = False


class Seal(NamedTuple):
    """The newest seal of a run that its timeline has."""

    checkpoint: str
    manifest_sha256: str


# -- sealing ---------------------------------------------------------------------------------------------------------


def seal(inner: OpenWorktree, evidence: Evidence, run: Run, *, again: bool = False) -> str:
    """Write the manifest, create the final checkpoint in the run's worktree `inner`, and record both; the id.

    Where the worktree is gone or too damaged to be captured, `inner` is any other of the repository: the checkpoint
    then has the last known state of the run's. `again` sets aside what has the name of the manifest and is no file.
    """
    evidence.tidy()
    if again:
        evidence.clear(MANIFEST)
    names = [name for name, regular in evidence.files() if regular and name != MANIFEST]
    rows = [_row(evidence, name) for name in names]
    body = {"schema": SCHEMA, "run_id": run.run_id, "sealed_at": times.now_text(), "files": rows}
    data = json.dumps(body, indent=1).encode("ascii") + b"\n"
    evidence.put(MANIFEST, data, vouched=False)
    digest = hashlib.sha256(data).hexdigest()
    metadata = Metadata(
        created_by=inner.agent,
        worktree_id=worktree_id(run.run_id),
        worktree_path=inner.location.root if run.context is None else run.context.worktree_path,
        trigger=_TRIGGER,
        description=f"run {run.run_id} {run.state}",
        task_id=run.task_id,
        run_id=run.run_id,
        meta={META_MANIFEST: digest, "state": run.state},
    )
    with converted_storage_errors():
        checkpoint = _checkpoint(inner, metadata, evidence, [*names, MANIFEST])
    evidence.event("sealed", checkpoint=checkpoint, manifest_sha256=digest)
    return checkpoint


def _row(evidence: Evidence, name: str) -> dict[str, Any]:
    digest, size = evidence.measure(name)
    return {"path": name, "role": _role(name), "sha256": digest, "size": size}


def _role(name: str) -> str:
    if name.startswith("steps/"):
        return _ROLES.get(name.rpartition("/")[2], "other")
    return _ROLES.get(name, "feedback" if name.startswith("feedback") else "other")


def _checkpoint(inner: OpenWorktree, metadata: Metadata, evidence: Evidence, names: list[str]) -> str:
    """The final checkpoint: of the worktree as it is, or, where that cannot be captured, of its last known state."""
    if timeline.worktree_id(inner.location) == metadata.worktree_id:
        attach = functools.partial(_carry, evidence=evidence, names=names)
        return create_checkpoint(inner, metadata, attach=attach).checkpoint.id
    top = layout.main_folder(inner.location)
    store = Repository(inner.location.worktree(top, inner.location.common_dir))
    with store.writer() as writer:
        newest = timeline.newest(store, metadata.worktree_id)
        if newest is None:
            raise RunError(f"run '{evidence.run_id}' has no checkpoint", "it has no workspace yet")
        state = format.with_visible_tree(store, writer, format.read_state(store, newest.checkpoint))
        files = _carry(writer, evidence, names)
        written = write_checkpoint(inner._replace(repository=store), writer, state, metadata, attachments=files)
    return written.checkpoint.id


def _carry(writer: Writer, evidence: Evidence, names: list[str]) -> dict[bytes, trees.Entry]:
    """The files, as entries of the checkpoint."""
    found: dict[bytes, trees.Entry] = {}
    for name in names:
        with evidence.open(name) as file:
            found[attachment_path(evidence.run_id, name)] = (trees.REGULAR, write_blob(writer, file))
    return found


# -- what the timeline has -------------------------------------------------------------------------------------------


def newest_seal(repository: Repository, run_id: str, tip: str | None = None) -> Seal | None:
    """The newest final checkpoint of a run; None where it was never sealed. MissingObjectsError where it is torn. `tip`
    is the commit at which its timeline ends, where that is not the one of this repository."""
    name = worktree_id(run_id)
    for link in timeline.entries(repository, name, tip) if tip is not None else timeline.walk(repository, name):
        if link.is_carrier:
            continue
        meta = format.open_checkpoint(repository, link.checkpoint).meta
        digest = (meta.get("meta") or {}).get(META_MANIFEST)
        if meta.get("run_id") == run_id and meta.get("trigger") == _TRIGGER and digest is not None:
            return Seal(link.checkpoint, str(digest))
    return None


def read_sealed(repository: Repository, run_id: str, name: str) -> bytes | None:
    """A file of the evidence as the run's final checkpoint has it; None where there is none."""
    found = newest_seal(repository, run_id)
    return (
        None if found is None else format.read_attachment(repository, found.checkpoint, attachment_path(run_id, name))
    )


# -- verifying -------------------------------------------------------------------------------------------------------


def verify(repository: Repository, evidence: Evidence, elsewhere: Elsewhere | None = None) -> Verification:
    """See `evidence_store.verify`. With `elsewhere`, the evidence was written in another repository: nothing but its
    seal vouches for it."""
    return _Check(repository, evidence, elsewhere).run()


class Elsewhere(NamedTuple):
    """Where a run was that was in another repository: `tip` is the commit at which its timeline ends (None: it has its
    usual ref here)."""

    tip: str | None = None


class _Check:
    """One verification of the evidence of a run."""

    def __init__(self, repository: Repository, evidence: Evidence, elsewhere: Elsewhere | None) -> None:
        self.repository = repository
        self.evidence = evidence
        self.elsewhere = elsewhere
        self.is_there = evidence.is_copy or os.path.isdir(evidence.folder)
        self.run_id = evidence.run_id
        self.problems: list[str] = []
        self.files = 0
        self.commits: dict[str, str] = {}  # commit -> where it is named
        self.renamed: dict[str, str] = {}
        self.rewritten = False

    def run(self) -> Verification:
        try:
            tip = None if self.elsewhere is None else self.elsewhere.tip
            sealed = newest_seal(self.repository, self.run_id, tip)
        except AgentosError as error:
            sealed = None
            self.problems.append(f"the timeline '{worktree_id(self.run_id)}' cannot be read: {error.message}")
        else:
            if sealed is None:
                self.problems.append("the run is not sealed: no checkpoint carries its evidence")
        digest = self._manifest(sealed)
        if self.is_there:
            self._events(sealed)
        self._context()
        missing = [f"{oid} ({where})" for oid, where in self.commits.items() if not self._exists(oid)]
        self.problems += [f"the commit {each} is missing or damaged" for each in missing]
        return Verification(
            run_id=self.run_id,
            ok=not self.problems,
            manifest_sha256=digest,
            final_checkpoint=sealed.checkpoint if sealed is not None else None,
            files=self.files,
            commits=len(self.commits) - len(missing),
            problems=self.problems,
            rewritten=self.rewritten,
        )

    # -- the files -----------------------------------------------------------------------------------------------------

    def _manifest(self, sealed: Seal | None) -> str | None:
        """Compare the manifest with its hash, and every file with the manifest; the manifest's hash."""
        if not self.is_there:
            self.problems.append(f"the folder '{self.evidence.folder}' is missing")
            return None
        data = self._read(MANIFEST)
        if data is None:
            if sealed is not None:
                self.problems.append(f"'{MANIFEST}' is missing")
            return None
        digest = hashlib.sha256(data).hexdigest()
        if sealed is not None and digest != sealed.manifest_sha256:
            self.problems.append(f"'{MANIFEST}' is not the one that checkpoint {sealed.checkpoint[:8]} was made with")
        try:
            body = json.loads(data)
            rows = {str(row["path"]): (str(row["sha256"]), int(row["size"])) for row in body["files"]}
            if body["run_id"] != self.run_id or body["schema"] != SCHEMA:
                raise ValueError
        except (ValueError, KeyError, TypeError, RecursionError):
            self.problems.append(f"'{MANIFEST}' is damaged")
            return digest
        carries = self._carried(sealed)
        there = dict(self.evidence.files())
        for name, (expected, size) in sorted(rows.items()):
            self._file(name, expected, size, regular=there.get(name))
            if carries is not None and os.fsencode(name) not in carries:
                self.problems.append(f"the final checkpoint does not carry '{name}'")
        self.problems += [
            f"'{name}' was added after the run was sealed" for name in sorted(there.keys() - rows - {MANIFEST})
        ]
        return digest

    def _file(self, name: str, expected: str, size: int, *, regular: bool | None) -> None:
        if not regular:
            self.problems.append(f"'{name}' is " + ("missing" if regular is None else "no regular file"))
            return
        self.files += 1
        try:
            digest, length = self.evidence.measure(name, size if name == EVENTS else None)
        except OSError as error:
            self.problems.append(f"'{name}' cannot be read: {system_reason(error)}")
            return
        if length < size and name == EVENTS:
            self.problems.append(f"'{name}' was cut off")
        elif (digest, length) != (expected, size):
            self.problems.append(f"'{name}' was changed")

    def _carried(self, sealed: Seal | None) -> set[bytes] | None:
        """The paths of the evidence in the final checkpoint whose contents exist."""
        if sealed is None:
            return None
        try:
            extra = self.repository.commit(
                format.open_checkpoint(self.repository, sealed.checkpoint).metadata_commit
            ).tree
            entry = trees.find(self.repository, extra, os.fsencode(f"runs/{self.run_id}"))
            listed = trees.walk(self.repository, entry[1]) if entry is not None else iter(())
            return {path for path, (_, oid) in listed if self.repository.exists(oid)}
        except AgentosError as error:
            self.problems.append(f"checkpoint {sealed.checkpoint[:8]} cannot be read: {error.message}")
            return None

    # -- the record -------------------------------------------------------------------------------------------------

    def _events(self, sealed: Seal | None) -> None:
        """Check that the record is verified, ends with the seal, and names the same one; gather the commits in it."""
        data = self._read(EVENTS)
        if data and not data.endswith(b"\n"):
            self.problems.append(f"'{EVENTS}' ends in the middle of a line")
        recorded = self._recorded(data)
        self.renamed = renamed(recorded)
        self.rewritten = any(event["event"] == REWRITTEN for event in recorded)
        events = with_current_ids(recorded)
        for event in events:
            self._gather(event, f"event '{event['event']}'")
            if isinstance(event.get("context"), Mapping):
                self._gather(event["context"], f"event '{event['event']}'")
            if event["event"] == "tampered":
                self.problems.append(f"the run was tampered with: {event['reason']}")
        self._named(events)
        seals = [n for n, event in enumerate(events) if event["event"] == "sealed"]
        if sealed is None:
            return
        newest = events[seals[-1]] if seals else {}
        if (newest.get("checkpoint"), newest.get(META_MANIFEST)) != sealed:
            self.problems.append(f"'{EVENTS}' does not have the seal of checkpoint {sealed.checkpoint[:8]}")
        elif more := [event for event in events[seals[-1] + 1 :] if event["event"] != REWRITTEN]:
            self.problems.append(f"'{EVENTS}' goes on after the last seal: {len(more)} more")

    def _recorded(self, data: bytes | None) -> Sequence[Event]:
        """The events as far as they can be believed."""
        if self.elsewhere is None:
            problem, recorded = self.evidence.why_unverified(), self.evidence.record().events
        else:
            try:
                problem, recorded = None, parse_events(data or b"", self.run_id)
            except RunError as error:
                problem, recorded = error.message, []
        if problem is not None and problem not in self.problems:
            self.problems.append(problem)
        return recorded

    def _named(self, events: Sequence[Event]) -> None:
        """Compare the files that the events name with their hashes."""
        try:
            named = state_of(self.run_id, events).files
        except RunError as error:
            self.problems.append(error.message)
            return
        for name, expected in sorted(named.items()):
            try:
                if self.evidence.digest(name) == expected:
                    continue
            except (OSError, RunError):
                pass
            if not any(each.startswith(f"'{name}' ") for each in self.problems):
                self.problems.append(f"'{name}' is not what the record says")

    def _context(self) -> None:
        """Check the recorded context and snapshots, and gather the commits in them."""
        for name, regular in self._listed():
            if regular and (name == CONTEXT or name.endswith("/snapshot.json")):
                try:
                    body = json.loads(self._read(name) or b"")
                except (ValueError, RecursionError):
                    self.problems.append(f"'{name}' is damaged")
                    continue
                if isinstance(body, Mapping):
                    self._gather(body, name)

    def _gather(self, body: Mapping[str, Any], where: str) -> None:
        for key in _COMMITS:
            value = body.get(key)
            for oid in value if isinstance(value, list) else [value]:
                if isinstance(oid, str):
                    self.commits.setdefault(self.renamed.get(oid, oid), where)

    def _exists(self, oid: str) -> bool:
        try:
            return self.repository.hash.is_oid(oid) and self.repository.exists(self.repository.commit(oid).tree)
        except AgentosError:
            return False

    def _listed(self) -> Iterator[tuple[str, bool]]:
        return self.evidence.files() if self.is_there else iter(())

    def _read(self, name: str) -> bytes | None:
        try:
            return self.evidence.read(name)
        except RunError as error:
            self.problems.append(error.message)
        except OSError as error:
            self.problems.append(f"'{name}' cannot be read: {system_reason(error)}")
        return None
