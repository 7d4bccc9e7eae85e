"""The evidence of a run, written again with other texts in it, so that it is as consistent as before: `forget` does it.

Every file is changed by a function. Then what names these files follows: their hashes in the events and in the
manifest, the size and hash of the part of the events that the manifest names, the hash of the manifest in the event
`sealed`, and the MAC of each event from the first one on that changed. An event whose MAC was wrong before has a wrong
one afterwards. So the evidence is verified as it was, and says by an event `rewritten` that it was changed.

In order: the objects of the copy in git, then its ref, the note, and the folder. What a kill leaves is finished by
`adopt`, which needs none of the texts: the tree has all.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping

from git_agentos.errors import AgentosError
from git_agentos.git import tree_refs, trees
from git_agentos.git.location import Location
from git_agentos.run import evidence_copy, lock
from git_agentos.run.context import evidence_path
from git_agentos.run.events import EVENTS, MANIFEST, REWRITTEN
from git_agentos.run.evidence_folder import UNFINISHED, Folder
from git_agentos.run.journal import Journal
from git_agentos.util import files as file_access
from git_agentos.util import times

_DIGEST = re.compile(rb'(?<=")[0-9a-f]{64}(?=")')

Clean = Callable[[str, bytes], bytes]  # name and content of a file -> its new content


def rewritten(
    journal: Journal,
    found: Mapping[str, bytes],
    clean: Clean,
    digests: dict[str, str],
    ids: Mapping[str, str] | None = None,
) -> dict[str, bytes]:
    """The files of the evidence that differ when each of `found` is changed by `clean`. `digests` has what is known of
    other files, and gets what is found here. With `ids`, the run's checkpoints that have other ids now, an event says
    so where anything differs."""
    changed: dict[str, bytes] = {}
    for name, data in found.items():
        new = clean(name, data) if name not in (EVENTS, MANIFEST) else data
        if new != data:
            changed[name] = new
            digests[_hash(data)] = _hash(new)
    record = _Record(journal, found, clean, digests, changed)
    record.write()
    if ids is not None and EVENTS in found and (changed or ids):
        changed[EVENTS] = changed.get(EVENTS, found[EVENTS]) + record.marked(ids)
    return changed


class _Record:
    """The events of a run, and the manifest, which name each other: each part is written when all that it names is."""

    def __init__(
        self,
        journal: Journal,
        found: Mapping[str, bytes],
        clean: Clean,
        digests: dict[str, str],
        changed: dict[str, bytes],
    ) -> None:
        self._journal = journal
        self._events = found.get(EVENTS, b"")
        self._manifest = found.get(MANIFEST)
        self._clean = clean
        self._digests = digests
        self._changed = changed
        self._named = _size_of_events(self._manifest)
        self._signer = journal.signer()
        self._new = b""

    def write(self) -> None:
        """Write both again, as far as they change."""
        position = 0
        for line in self._events.splitlines(keepends=True):
            self._manifest_at(position)
            self._new += self._signer.again(line, self._line(line))
            position += len(line)
        self._manifest_at(position)
        if self._named is not None and self._named > position:
            self._write_manifest()
        if self._new != self._events:
            self._changed[EVENTS] = self._new

    def marked(self, ids: Mapping[str, str]) -> bytes:
        """One more event, which says that others were changed, or the ids of checkpoints."""
        fields = {"by": "git agentos forget", "renamed": dict(ids)}
        return self._signer.added({"event": REWRITTEN, "at": times.now_text(), **fields})

    def _line(self, line: bytes) -> bytes:
        line = self._clean(EVENTS, line)
        return _DIGEST.sub(lambda found: self._digests.get(found[0].decode(), found[0].decode()).encode(), line)

    def _manifest_at(self, position: int) -> None:
        if position == self._named:
            self._write_manifest()

    def _write_manifest(self) -> None:
        assert self._manifest is not None
        self._named = None
        with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
            body = json.loads(self._clean(MANIFEST, self._manifest))
            before = json.dumps(body)
            for row in body["files"]:
                new = self._new if row["path"] == EVENTS else self._changed.get(str(row["path"]))
                if new is not None:
                    row["sha256"], row["size"] = _hash(new), len(new)
            if json.dumps(body) == before and self._clean(MANIFEST, self._manifest) == self._manifest:
                return
            data = json.dumps(body, indent=1).encode("ascii") + b"\n"
            self._changed[MANIFEST] = data
            self._digests[_hash(self._manifest)] = _hash(data)


def _size_of_events(manifest: bytes | None) -> int | None:
    """How much of the events a manifest names; None where it cannot be read."""
    with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
        for row in json.loads(manifest or b"")["files"]:
            if row["path"] == EVENTS:
                return int(row["size"])
    return None


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# -- the evidence of one run, wherever it is ---------------------------------------------------------------------------


def read(location: Location, run_id: str) -> dict[str, bytes]:
    """All files of a run's evidence: those in its folder, and those that only its copy in git has."""
    found: dict[str, bytes] = {}
    repository = tree_refs.open_store(location)
    for path, (_, oid) in tree_refs.files(repository, evidence_copy.PREFIX + run_id).items():
        found[os.fsdecode(path)] = repository.blob(oid)
    folder = Folder(evidence_path(location, run_id))
    for name in _names(folder):
        with open(folder.open(name), "rb") as file:
            found[name] = file.read()
    return found


def _names(folder: Folder) -> Iterator[str]:
    if os.path.isdir(folder.path) and not os.path.islink(folder.path):
        yield from (name for name, regular in folder.walk() if regular and not name.endswith(UNFINISHED))


def tidy(location: Location, run_id: str) -> None:
    """Remove what a killed process was writing. No process may have the run."""
    folder = Folder(evidence_path(location, run_id))
    if os.path.isdir(folder.path) and not os.path.islink(folder.path):
        for name, regular in list(folder.walk()):
            if regular and name.endswith(UNFINISHED):
                folder.remove(name)


def write(location: Location, found: Mapping[str, bytes]) -> str:
    """Write the objects of a copy; the tree that the copy will be."""
    with tree_refs.open_store(location).writer() as writer:
        tree = trees.build(
            writer,
            {os.fsencode(name): (trees.REGULAR, writer.write("blob", data)) for name, data in sorted(found.items())},
        )
        writer.flush()
    return tree


def adopt(location: Location, run_id: str, tree: str) -> None:
    """Make a tree the copy of a run's evidence, and write its note and folder again."""
    repository = tree_refs.open_store(location)
    files = dict(trees.walk(repository, tree))
    tree_refs.put(repository, evidence_copy.PREFIX + run_id, lambda _: files)
    _finish(location, run_id)


def _finish(location: Location, run_id: str) -> None:
    """Write the note and the folder of a run again, from its copy in git."""
    copy = evidence_copy.find_copy(location, run_id)
    if copy is None:
        return
    Journal(copy, run_id).note_again()
    folder = evidence_path(location, run_id)
    if not os.path.isdir(folder) or os.path.islink(folder):
        return
    there = Folder(folder)
    for name in _names(there):
        if copy.kind(name) is None:
            there.remove(name)
    for name, _ in copy.walk():
        with open(copy.open(name), "rb") as file:
            data = file.read()
        if _content(there, name) != data:
            there.replace(name, data)
    file_access.sync_directory(folder)


def _content(folder: Folder, name: str) -> bytes | None:
    try:
        with open(folder.open(name), "rb") as file:
            return file.read()
    except (OSError, AgentosError):
        return None


def clean_spec(location: Location, run_id: str, clean: Clean, digests: dict[str, str]) -> str | None:
    """The spec of a run that has not ended, changed; None where it has ended or nothing changes. The event `begun` has
    a MAC of it: so it is saved (`lock.save_spec`) after the evidence."""
    text = lock.load_spec(location, run_id)
    if text is None:
        return None
    data = text.encode("utf-8", "surrogateescape")
    new = clean("spec.json", data)
    if new == data:
        return None
    changed = new.decode("utf-8", "surrogateescape")
    before, after = lock.sign_spec(run_id, text), lock.sign_spec(run_id, changed)
    if before is not None and after is not None:
        digests[before] = after
    return changed
