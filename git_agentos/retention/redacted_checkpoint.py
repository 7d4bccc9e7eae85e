"""One checkpoint, written again without what is to be forgotten.

A file that is to be forgotten has, in the trees of the checkpoint, the entry that it has in HEAD's commit, which is the
user's; or none. It is named in `skipped`, so that a restore leaves today's file alone. In texts (messages, the log,
files of an operation in progress), a placeholder takes the place of a secret.

What is not touched keeps its id: a checkpoint in which there is nothing to forget is not written again. Authors and
times stay.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from git_agentos.checkpoint import format, state_fields
from git_agentos.checkpoint.format import OpenCheckpoint
from git_agentos.checkpoint.model import Skipped, SkipReason
from git_agentos.errors import AgentosError
from git_agentos.git import raw_commits, trees
from git_agentos.git.repository import CommitData, Writer
from git_agentos.git.trees import Change, Entry
from git_agentos.retention.plan import Link
from git_agentos.retention.redaction import Redaction

META = b"meta.json"
# Folders of S in which a path of the worktree follows.
_BY_PATH = re.compile(rb"(?:ignored|raw|stages/[123])/(.+)", re.DOTALL)
_LISTS = ("staged_changes", "unstaged_changes", "untracked_files", "crlf", "as_stored")
_FLAGS = ("assume_unchanged", "skip_worktree", "absent")
_MODES = ("intent_to_add", "permissions", "folders")
_NAMED = (*_LISTS, *_FLAGS, *_MODES, "not_present", "empty_directories")

_ATTACHED = (b"runs/", b"database/")  # what other packages have put into S
_PINNED = b"gitdir-trees/"
_NESTED = b"nested/"

Attachments = Callable[[Writer, Mapping[bytes, Entry], dict[str, str]], Mapping[bytes, Change]]


Dropped = Mapping[bytes, Change]  # path of a file that is forgotten -> its entry in HEAD's commit


class Rewriter:
    """Writes the checkpoints of one timeline again. `ids` has those that have another id now, `former` what was
    replaced, `dropped` the paths that any of them has lost, `nested` those of repositories inside.

    `attachments` writes what other packages have put into S: it gets all these files, and returns those that differ.
    Where it writes a file that is known elsewhere by its SHA-256, it adds the former and the new one to `digests`.
    """

    def __init__(
        self,
        redaction: Redaction,
        writer: Writer,
        attachments: Attachments,
        digests: dict[str, str],
    ) -> None:
        self._redaction = redaction
        self._writer = writer
        self._repository = writer.repository
        self._attachments = attachments
        self.digests = digests
        self.ids: dict[str, str] = {}
        self.former: list[str] = []
        self.dropped: dict[bytes, None] = {}
        self.nested: set[bytes] = set()

    def link(self, link: Link) -> Link:
        """A timeline commit over what is kept; the same one where nothing is to be forgotten."""
        dropped: Dropped = {}
        if link.is_carrier:
            checkpoint = self._carrier(link.checkpoint)
        else:
            checkpoint, dropped = self._checkpoint(link.checkpoint)
        message = self._redaction.secrets.replace(link.commit.message)
        if checkpoint == link.checkpoint and message == link.commit.message:
            return link
        if checkpoint != link.checkpoint and not link.is_carrier:
            self.ids[link.checkpoint] = checkpoint
        self.former += [link.commit.oid, link.checkpoint]
        self.dropped.update(dict.fromkeys(dropped))
        before, _, *pins = link.commit.parents
        tree = self._visible(link.commit.tree, checkpoint, dropped)
        commit = link.commit._replace(tree=tree, parents=(before, checkpoint, *pins), message=message)
        return Link(commit, checkpoint, link.is_carrier)

    def _visible(self, tree: str, checkpoint: str, dropped: Dropped) -> str:
        """The tree of all visible files, in which the dropped ones are as in that of the checkpoint, if it has them."""
        if not dropped:
            return tree
        tracked = self._writer.pending_commit(checkpoint).tree
        now = {path: trees.find(self._writer, tracked, path) for path in dropped}
        return self._without(
            tree, {path: None if entry is None or entry[0] == trees.DIRECTORY else entry for path, entry in now.items()}
        )

    # -- carriers ------------------------------------------------------------------------------------------------------

    def _carrier(self, oid: str) -> str:
        commit = self._repository.commit(oid)
        found = dict(self._repository.entries(commit.tree))
        changed = {name: self._text(entry) for name, entry in found.items() if self._redaction.has_secret(entry[1])}
        message = self._redaction.secrets.replace(commit.message)
        if not changed and message == commit.message:
            return oid
        return self._again(commit, tree=trees.build(self._writer, {**found, **changed}), message=message)

    # -- checkpoints ---------------------------------------------------------------------------------------------------

    def _checkpoint(self, oid: str) -> tuple[str, Dropped]:
        found = format.open_checkpoint(self._repository, oid)
        extra = self._repository.commit(found.metadata_commit)
        held = dict(trees.walk(self._repository, extra.tree))
        self.nested.update(name.removeprefix(_NESTED) for name in held if name.startswith(_NESTED))
        dropped = self._find_dropped(found, held)
        changes = self._of_extra(held, dropped)
        message = self._redaction.secrets.replace(found.commit.message)
        meta_affected = self._redaction.has_secret(held[META][1])
        if not dropped and not changes and not meta_affected and message == found.commit.message:
            return oid, dropped
        tree = self._without(found.commit.tree, dropped)
        index = self._with_tree(found.index_commit, dropped)
        untracked = self._with_tree(found.untracked, dropped)
        s_tree = trees.edit(self._writer, extra.tree, changes)
        meta = self._meta(found, dropped, tree, (index, untracked), s_tree)
        s_tree = trees.edit(self._writer, s_tree, {META: (trees.REGULAR, self._writer.write("blob", meta))})
        parents = [found.head, index, untracked, self._again(extra, tree=s_tree)]
        return self._again(found.commit, tree=tree, parents=parents, message=message), dropped

    def _find_dropped(self, found: OpenCheckpoint, held: Mapping[bytes, Entry]) -> Dropped:
        """The files of the worktree to forget: by their names, or by what is in any copy of them that is no part of
        HEAD's commit."""
        head = self._repository.commit(found.head).tree
        contents: dict[bytes, list[str]] = {}

        def add(path: bytes, entry: Entry | None) -> None:
            if entry is not None and entry[0] != trees.GITLINK:
                contents.setdefault(path, []).append(entry[1])

        index = self._repository.commit(found.index_commit).tree
        for tree in (found.commit.tree, index):
            for path, (_, after) in trees.diff(self._repository, head, tree).items():
                add(path, after)
        for path, entry in trees.walk(self._repository, self._repository.commit(found.untracked).tree):
            add(path, entry)
        for name, entry in held.items():
            by_path = _BY_PATH.fullmatch(name)
            if by_path is not None:
                add(by_path[1], entry)
        for name in found.meta.get("intent_to_add", {}):
            contents.setdefault(os.fsencode(name), [])
        secret = {path for path, oids in contents.items() if any(map(self._redaction.has_secret, oids))}
        wanted = secret | self._redaction.matching(contents)
        return {path: self._of_head(head, path) for path in sorted(wanted)}

    def _of_head(self, head: str, path: bytes) -> Change:
        entry = trees.find(self._repository, head, path)
        return None if entry is None or entry[0] == trees.DIRECTORY else entry

    def _without(self, tree: str, dropped: Dropped) -> str:
        """A tree in which the dropped files that it has are as in HEAD's commit."""
        there = {path: entry for path, entry in dropped.items() if trees.find(self._writer, tree, path) is not None}
        return trees.edit(self._writer, tree, there)

    def _with_tree(self, oid: str, dropped: Dropped) -> str:
        """I or U, without what is dropped."""
        commit = self._repository.commit(oid)
        if not commit.parents:
            dropped = dict.fromkeys(dropped)
        return self._again(commit, tree=self._without(commit.tree, dropped))

    # -- S -------------------------------------------------------------------------------------------------------------

    def _of_extra(self, held: Mapping[bytes, Entry], dropped: Dropped) -> dict[bytes, Change]:
        """What becomes of the files in S, but for the metadata."""
        changes: dict[bytes, Change] = {}
        attached = {name: entry for name, entry in held.items() if name.startswith(_ATTACHED)}
        trees_now = self._of_pinned_trees(held, changes)
        for name, entry in held.items():
            by_path = _BY_PATH.fullmatch(name)
            if by_path is not None:
                if by_path[1] in dropped:
                    changes[name] = None
            elif name == META or name in attached or name.startswith(_PINNED):
                continue
            elif self._redaction.has_secret(entry[1]) or (trees_now and name.startswith(b"gitdir/")):
                changed = self._text(entry, trees_now)
                if changed != entry:
                    changes[name] = changed
        changes.update(self._attachments(self._writer, attached, self.digests))
        return changes

    def _of_pinned_trees(self, held: Mapping[bytes, Entry], changes: dict[bytes, Change]) -> dict[bytes, bytes]:
        """Leave files out of the trees that files of an operation name; the former and the new ids of these trees."""
        there: dict[bytes, dict[bytes, Entry]] = {}
        for name, entry in held.items():
            if name.startswith(_PINNED):
                tree, _, path = name.removeprefix(_PINNED).partition(b"/")
                there.setdefault(tree, {})[path] = entry
        found = {}
        for tree, files in there.items():
            gone = self._redaction.matching(files)
            gone.update(path for path, entry in files.items() if self._redaction.has_secret(entry[1]))
            if gone:
                changes.update((_PINNED + tree + b"/" + path, None) for path in gone)
                kept = {path: entry for path, entry in files.items() if path not in gone}
                ids = [trees.build(self._writer, each).encode("ascii") for each in (files, kept)]
                found[ids[0]] = ids[1]
        return found

    def _text(self, entry: Entry, ids: Mapping[bytes, bytes] = MappingProxyType({})) -> Entry:
        data = self._redaction.secrets.replace(self._repository.blob(entry[1]))
        for old, new in ids.items():
            data = data.replace(old, new)
        return entry[0], self._writer.write("blob", data)

    # -- the metadata --------------------------------------------------------------------------------------------------

    def _meta(self, found: OpenCheckpoint, dropped: Dropped, tree: str, others: tuple[str, str], s_tree: str) -> bytes:
        index_tree, untracked_tree = (self._writer.pending_commit(oid).tree for oid in others)
        meta = dict(found.meta)
        tracked = {path for path in dropped if trees.find(self._writer, index_tree, path) is not None}
        for key in _NAMED:
            if key in meta:
                meta[key] = self._stay(meta[key], dropped, keep=tracked if key in _FLAGS else ())
        if meta.get("restores"):
            meta["restores"] = self.ids.get(meta["restores"], meta["restores"])
        known = [Skipped(item["path"], item["reason"]) for item in meta["skipped"]]
        names = {os.fsdecode(path) for path in dropped}
        skipped = [item for item in known if item.path not in names]
        skipped += [Skipped(name, SkipReason.FORGOTTEN) for name in names]
        meta["skipped"] = [{"path": item.path, "reason": str(item.reason)} for item in sorted(skipped)]
        if isinstance(meta.get("meta"), dict):
            meta["meta"] = {key: self.digests.get(value, value) for key, value in meta["meta"].items()}
        meta = json.loads(self._redaction.secrets.replace(_json(meta)))
        meta["state"] = self._digest(meta, tree, index_tree, untracked_tree, s_tree)
        return _json(meta)

    def _stay(self, named: Any, dropped: Dropped, keep: Iterable[bytes]) -> Any:
        """A list of paths, or a mapping by them, without what is dropped or has a secret in its name."""
        kept = set(keep)

        def stays(name: str) -> bool:
            path = os.fsencode(name)
            gone = path in dropped or path.rstrip(b"/") in dropped
            return not (gone and path not in kept) and not self._redaction.secrets.is_in(path)

        if isinstance(named, dict):
            return {name: value for name, value in named.items() if stays(name)}
        return named if named is None else [name for name in named if stays(name)]

    def _digest(self, meta: Mapping[str, Any], tree: str, index_tree: str, untracked_tree: str, s_tree: str) -> str:
        """The hash over the state; the former one where that cannot be read."""
        top = self._writer.entries(s_tree)
        groups = {
            os.fsdecode(name): dict(trees.walk(self._writer, child))
            for name, (mode, child) in top.items()
            if mode == trees.DIRECTORY and name != b"gitdir-trees"
        }
        pinned = self._writer.entries(top[b"gitdir-trees"][1]) if b"gitdir-trees" in top else {}
        patterns = top.get(b"sparse-checkout")
        extra = state_fields.Extra(
            index_tree=index_tree,
            tree=tree,
            untracked_tree=untracked_tree,
            groups=groups,
            operation_trees={os.fsdecode(name): child for name, (_, child) in pinned.items()},
            patterns=patterns and patterns[1],
        )
        try:
            return state_fields.digest(state_fields.from_fields(meta, extra))
        except (KeyError, TypeError, ValueError, AttributeError, AgentosError):
            return str(meta.get("state", ""))

    # -- commits -------------------------------------------------------------------------------------------------------

    def _again(
        self,
        commit: CommitData,
        *,
        tree: str,
        parents: list[str] | None = None,
        message: bytes | None = None,
    ) -> str:
        raw = self._repository.read(commit.oid)[1]
        wanted = commit.parents if parents is None else parents
        return self._writer.write_raw_commit(raw_commits.rewritten(raw, tree, wanted, message))


def _json(meta: Mapping[str, Any]) -> bytes:
    return json.dumps(meta, sort_keys=True, indent=1).encode("ascii") + b"\n"
