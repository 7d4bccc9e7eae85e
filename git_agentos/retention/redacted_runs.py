"""The evidence of runs, without what is to be forgotten: where checkpoints carry it, in its folder, and in git."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import AgentosError
from git_agentos.git import refs
from git_agentos.git.location import Location
from git_agentos.git.repository import Writer
from git_agentos.git.trees import Change, Entry
from git_agentos.retention import evidence_notes, pending
from git_agentos.retention.forgetting import drop_reflog
from git_agentos.retention.progress import PreparedEvidence, Progress
from git_agentos.retention.redaction import Redaction
from git_agentos.run import evidence_again, evidence_copy, evidence_store, lock
from git_agentos.run.context import evidence_path, is_id
from git_agentos.run.evidence_folder import Folder
from git_agentos.run.journal import Journal

_PATCH = ".patch"
_SECTION = re.compile(rb"^(?=diff --git )", re.MULTILINE)
_NAMES = re.compile(rb'diff --git (?:a/(.+?) b/.+|"a/(.+?)" "b/.+")\n')
_ESCAPE = re.compile(rb'\\([0-7]{3}|[abtnvfr"\\])')
_ESCAPED = {b"a": b"\a", b"b": b"\b", b"t": b"\t", b"n": b"\n", b"v": b"\v", b"f": b"\f", b"r": b"\r"}


class EvidenceCleaner:
    """Changes the files of evidence. `digests` are the hashes of files before and after, of all runs."""

    def __init__(self, redaction: Redaction, digests: dict[str, str]) -> None:
        self._redaction = redaction
        self._digests = digests

    def file(self, name: str, data: bytes) -> bytes:
        """What is left of a file: of a patch, no section about a path that is forgotten."""
        if name.endswith(_PATCH):
            data = self._patch(data)
        return self._redaction.secrets.replace(data)

    def _patch(self, data: bytes) -> bytes:
        sections = _SECTION.split(data)
        paths = [_path_of(section) for section in sections]
        gone = self._redaction.matching([path for path in paths if path is not None])
        return b"".join(each for each, path in zip(sections, paths, strict=True) if path not in gone)

    def changed(
        self, location: Location, run_id: str, found: Mapping[str, bytes], ids: Mapping[str, str] | None = None
    ) -> dict[str, bytes]:
        """The files of a run's evidence that differ when nothing that is to be forgotten is in them."""
        journal = Journal(Folder(evidence_path(location, run_id)), run_id)
        return evidence_again.rewritten(journal, found, self.file, self._digests, ids)

    def attached(self, writer: Writer, files: Mapping[bytes, Entry]) -> dict[bytes, Change]:
        """The same of the files `runs/<id>/…` of a checkpoint."""
        runs: dict[str, dict[str, Entry]] = {}
        for full, entry in files.items():
            _, run_id, path = os.fsdecode(full).split("/", 2)
            runs.setdefault(run_id, {})[path] = entry
        changes: dict[bytes, Change] = {}
        for run_id, entries in runs.items():
            if not any(self._may_change(name, oid) for name, (_, oid) in entries.items()):
                continue
            found = {name: writer.repository.blob(oid) for name, (_, oid) in entries.items()}
            for name, data in self.changed(writer.repository.location, run_id, found).items():
                changes[os.fsencode(f"runs/{run_id}/{name}")] = (entries[name][0], writer.write("blob", data))
        return changes

    def _may_change(self, name: str, oid: str) -> bool:
        return self._redaction.has_secret(oid) or (name.endswith(_PATCH) and self._redaction.has_globs)


def _path_of(section: bytes) -> bytes | None:
    """The path that a section of a patch is about."""
    found = _NAMES.match(section)
    if found is None:
        return None
    if found[1] is not None:
        line = section.partition(b"\n")[0].removeprefix(b"diff --git a/")
        half = (len(line) - 3) // 2  # both names are the same
        return line[:half] if line[half : half + 3] == b" b/" else found[1]
    return _ESCAPE.sub(lambda each: _ESCAPED.get(each[1]) or _octal(each[1]), found[2])


def _octal(text: bytes) -> bytes:
    return bytes([int(text, 8) & 0xFF]) if text.isdigit() else text


def rewrite(context: OpenWorktree, redaction: Redaction, progress: Progress) -> None:
    """Write the evidence of all runs again. Of a run that is going on it stays, and that is said."""
    location = context.location
    for run_id in sorted({*evidence_store.ids(location), *evidence_copy.ids(location)}):
        if is_id(run_id) and lock.holder(location, run_id) is None:
            evidence_again.tidy(location, run_id)
        if is_id(run_id) and run_id not in progress.evidence:
            prepare(context, redaction, progress, run_id, {})
    for run_id, found in progress.evidence.items():
        name = evidence_copy.PREFIX + run_id
        if found.tree is not None:
            before = refs.resolve(location, name)
            if before is not None:
                progress.replaces(location, [before])
            evidence_again.adopt(location, run_id, found.tree)
            drop_reflog(context.repository, name)
        if found.spec is not None:
            lock.save_spec(location, run_id, found.spec)
        pending.remove([found.note] if found.note is not None else [])


def prepare(
    context: OpenWorktree, redaction: Redaction, progress: Progress, run_id: str, ids: Mapping[str, str]
) -> None:
    """Write the objects of a run's new evidence, with a note: it takes its place when the run's timeline has the
    checkpoints that have other ids then (`ids`)."""
    location = context.location
    digests = dict(progress.digests)
    cleaner = EvidenceCleaner(redaction, digests)
    try:
        found = evidence_again.read(location, run_id)
        spec = evidence_again.clean_spec(location, run_id, cleaner.file, digests)
        changed = cleaner.changed(location, run_id, found, ids)
    except (AgentosError, OSError) as error:
        progress.unreachable.append(f"the evidence of run '{run_id}': {error}")
        return
    if not changed and spec is None:
        return
    if lock.holder(location, run_id) is not None:
        progress.unreachable.append(
            f"the evidence of run '{run_id}', which goes on: give this command again when it has ended"
        )
        return
    if not changed:
        progress.evidence[run_id] = PreparedEvidence(None, spec, None)
        return
    tree = evidence_again.write(location, {**found, **changed})
    note = evidence_notes.write(location, run_id, tree, next(reversed(list(ids.values())), None))
    progress.evidence[run_id] = PreparedEvidence(tree, spec, note)
