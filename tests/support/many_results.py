"""Results of many tasks of a fleet, of which only one was run: the others are copies of its result, object by object.

In a copy every id, hash and path is that of its own task, so that its evidence verifies as that of a real run does. Ids
of tasks are as long as each other, and each task has a file of its own.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from git_agentos.fleet import names, records
from git_agentos.fleet.records import Result
from git_agentos.git import trees
from git_agentos.git.repository import Repository, Writer
from tests.support.fleet_results import Site, task
from tests.support.runs import context_of

_HASHES = re.compile(rb"[0-9a-f]{64}|[0-9a-f]{40}")
_LAST = (b"events.jsonl", b"manifest.json", b"meta.json")  # they have the hashes of the others


def ids(number: int) -> list[str]:
    return [f"t{n:05d}" for n in range(number)]


def submit(site: Site, number: int) -> dict[str, Result]:
    """A fleet of so many tasks, all of which have a result that verifies, on the remote: task -> result."""
    wanted = ids(number)
    fleet = site.submit(*(task(id_, f"echo {id_} >{id_}.txt; git add .; git commit -qm {id_}") for id_ in wanted))
    _, first, evidence = site.run(wanted[0])
    context = context_of(site.machine)
    found = {}
    with context.repository.writer() as writer:
        for id_ in wanted:
            copy = _Copy(context.repository, writer, wanted[0], id_, keep=fleet.base)
            assert first.commit is not None and first.timeline is not None and first.checkpoint is not None
            commit, timeline, checkpoint = (copy.of(each) for each in (first.commit, first.timeline, first.checkpoint))
            result = replace(first, task=id_, run_id=names.run_id(fleet.id, id_), commit=commit, timeline=timeline)
            result = replace(result, checkpoint=checkpoint)
            oid = records.write_result(writer, fleet.id, result, context.settings.committer, copy.of(evidence))
            found[id_] = replace(result, result=oid)
        writer.flush()
    specs = "".join(f"update {names.result_ref(fleet.id, id_)} {each.result}\n" for id_, each in found.items())
    site.machine.git("update-ref", "--stdin", stdin=specs.encode())
    site.machine.git("push", "-q", "origin", f"{names.PREFIX}*:{names.PREFIX}*")
    return found


@dataclass
class _Copy:
    """Objects, as they would be had the task been another one."""

    repository: Repository
    writer: Writer
    old: str
    new: str
    keep: str
    done: dict[str, str] = field(default_factory=dict)
    hashes: dict[bytes, bytes] = field(default_factory=dict)

    def of(self, oid: str) -> str:
        if oid == self.keep:
            return oid
        if oid not in self.done:
            kind, data = self.repository.read(oid)
            self.done[oid] = self._write(kind, data)
        return self.done[oid]

    def _write(self, kind: str, data: bytes) -> str:
        if kind == "tree":
            return self.writer.write("tree", self._tree(data))
        if kind == "blob":
            copied = self._text(data)
            self.hashes[hashlib.sha256(data).hexdigest().encode()] = hashlib.sha256(copied).hexdigest().encode()
            return self.writer.write("blob", copied)
        header, _, message = data.partition(b"\n\n")
        rows = (self._text(row, *self._named(row)) for row in header.split(b"\n"))
        return self.writer.write("commit", b"\n".join(rows) + b"\n\n" + self._text(message))

    def _named(self, row: bytes) -> Iterable[str]:
        key, _, value = row.partition(b" ")
        return [value.decode()] if key in (b"tree", b"parent") else []

    def _tree(self, data: bytes) -> bytes:
        entries = trees.parse(data, self.repository.hash.raw_length)
        copied = {}
        for name in sorted(entries, key=lambda name: (name in _LAST, _LAST.index(name) if name in _LAST else 0)):
            mode, oid = entries[name]
            copied[self._text(name)] = (mode, self.of(oid) if mode != trees.GITLINK else oid)
        return trees.serialise(copied)

    def _text(self, data: bytes, *named: str) -> bytes:
        """Text in which all ids are those of the copy; commits that it names are copied first."""
        for oid in named:
            self.of(oid)
        for each in set(_HASHES.findall(data)):
            oid = each.decode()
            if oid not in self.done and len(oid) == self.repository.hash.hex_length and self._is_ours(oid):
                self.of(oid)
        data = _HASHES.sub(lambda found: self._hash(found[0]), data)
        return data.replace(self.old.encode(), self.new.encode())

    def _is_ours(self, oid: str) -> bool:
        return oid != self.keep and self.repository.kind(oid) == "commit"

    def _hash(self, text: bytes) -> bytes:
        return self.hashes.get(text) or self.done.get(text.decode(), text.decode()).encode()
