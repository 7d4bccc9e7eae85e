"""The state of a checkpoint as fields of meta.json and as entries of S, and back. `format` specifies them."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

from git_agentos.checkpoint.model import RulesOutside, Skipped, Sparse, State
from git_agentos.git import trees
from git_agentos.git.refs import Head
from git_agentos.util.named_tuple import NamedTuple


class Extra(NamedTuple):
    """What a checkpoint has of a state: its trees; of S, the files in each folder (`stages`, `gitdir` …), the trees
    in `gitdir-trees`, and the blob with the patterns of a sparse checkout."""

    index_tree: str
    tree: str
    untracked_tree: str
    groups: Mapping[str, Mapping[bytes, trees.Entry]]
    operation_trees: Mapping[str, str]
    patterns: str | None


# -- writing -------------------------------------------------------------------------------------------------------


def _names(paths: Iterable[bytes]) -> list[str]:
    return [os.fsdecode(path) for path in paths]


def to_fields(state: State) -> dict[str, Any]:
    return {
        "head": {"ref": state.head.ref, "commit": state.head.commit},
        "intent_to_add": {os.fsdecode(path): f"{mode:o}" for path, mode in state.intent_to_add.items()},
        "assume_unchanged": _names(state.assume_unchanged),
        "skip_worktree": _names(state.skip_worktree),
        "absent": _names(state.absent),
        "not_present": _names(state.not_present),
        "sparse": None if state.sparse is None else {"cone": state.sparse.cone, "index": state.sparse.sparse_index},
        **_rules_fields(state.rules),
        "empty_directories": _names(state.empty_directories),
        "permissions": {os.fsdecode(path): f"{bits:o}" for path, bits in sorted(state.permissions.items())},
        "umask": f"{state.umask:o}",
        "operation": state.operation,
        "skipped": [{"path": item.path, "reason": item.reason} for item in state.skipped],
        "staged_changes": _names(state.staged),
        "unstaged_changes": _names(state.unstaged),
        "untracked_files": _names(state.untracked),
        **(_complete_fields(state) if state.complete else {}),
    }


def _rules_fields(rules: RulesOutside | None) -> dict[str, Any]:
    if rules is None:
        return {}
    return {"excludes_file": None if rules.users_path is None else os.fsdecode(rules.users_path)}


def _complete_fields(state: State) -> dict[str, Any]:
    folders = {os.fsdecode(path): f"{bits:o}" for path, bits in sorted(state.folders.items())}
    return {"complete": True, "folders": folders}


def conversion_fields(state: State) -> dict[str, Any]:
    if not state.has_own_bytes:
        return {}
    return {
        "crlf": sorted(_names(state.crlf)),
        "as_stored": sorted(_names(state.as_stored)),
        "line_ends": state.line_ends and dict(state.line_ends),
        "filters": list(state.filters),
    }


def digest(state: State) -> str:
    """A hash over the whole state: equal only for equal states."""
    parts = {
        **to_fields(state),
        "trees": [state.index_tree, state.tree, state.untracked_tree],
        "patterns": state.sparse.patterns if state.sparse is not None else None,
        **{name: list(map(str, items)) for name, items in extra_entries(state).items()},
    }
    # Left out if they are empty, since states of older versions do not have them.
    parts.update({name: value for name, value in conversion_fields(state).items() if value and name != "filters"})
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha1(text.encode("ascii"), usedforsecurity=False).hexdigest()


def fingerprint(state: State) -> str:
    """A hash over the whole state, by which the callers of a restore name it: the same whether checkpoints of the
    repositories inside exist already or not, of which `digest` has the ids."""
    if not state.nested:
        return digest(state)
    inside = {os.fsdecode(path): state.nested_states.get(path, oid) for path, oid in sorted(state.nested.items())}
    text = json.dumps([digest(state._replace(nested={})), inside], separators=(",", ":"))
    return hashlib.sha1(text.encode("ascii"), usedforsecurity=False).hexdigest()


def extra_entries(state: State) -> dict[str, tuple[int, str]]:
    """S without meta.json and trees: path -> entry."""
    regular = trees.REGULAR
    entries: dict[str, tuple[int, str]] = {}
    for path, stages in state.stages.items():
        for n, entry in stages.items():
            entries[f"stages/{n}/{os.fsdecode(path)}"] = entry
    entries.update({f"gitdir/{name}": (regular, oid) for name, oid in state.operation_files.items()})
    entries.update({f"ignored/{os.fsdecode(path)}": entry for path, entry in state.ignored.items()})
    entries.update({f"raw/{os.fsdecode(path)}": (regular, oid) for path, oid in state.raw.items()})
    entries.update({f"nested/{os.fsdecode(path)}": (regular, oid) for path, oid in state.nested.items()})
    for name, blob in () if state.rules is None else (("exclude", state.rules.exclude), ("users", state.rules.users)):
        if blob is not None:
            entries[f"rules/{name}"] = (regular, blob)
    if state.sparse is not None and state.sparse.patterns is not None:
        entries["sparse-checkout"] = (regular, state.sparse.patterns)
    return entries


# -- reading -------------------------------------------------------------------------------------------------------


def from_fields(meta: Mapping[str, Any], extra: Extra) -> State:
    """The state that the fields describe, without its visible tree. KeyError, TypeError, ValueError or AttributeError
    where they are damaged."""
    sparse = meta["sparse"]
    return State(
        head=Head(meta["head"]["ref"], meta["head"]["commit"]),
        index_tree=extra.index_tree,
        tree=extra.tree,
        untracked_tree=extra.untracked_tree,
        stages=_stages(extra.groups.get("stages", {})),
        intent_to_add=_modes(meta["intent_to_add"]),
        assume_unchanged=_paths(meta["assume_unchanged"]),
        skip_worktree=_paths(meta["skip_worktree"]),
        absent=_paths(meta["absent"]),
        not_present=_paths(meta["not_present"]),
        sparse=None if sparse is None else Sparse(sparse["cone"], sparse["index"], extra.patterns),
        rules=_rules(meta, extra.groups.get("rules", {})),
        empty_directories=_paths(meta["empty_directories"]),
        permissions=_modes(meta["permissions"]),
        umask=int(meta["umask"], 8),
        raw=_oids(extra, "raw"),
        crlf=frozenset(_paths(meta.get("crlf", []))),
        as_stored=frozenset(_paths(meta.get("as_stored", []))),
        has_own_bytes="crlf" in meta,
        filters=[str(name) for name in meta.get("filters", [])],
        line_ends=None if meta.get("line_ends") is None else dict(meta["line_ends"]),
        ignored=extra.groups.get("ignored", {}),
        operation=meta["operation"],
        operation_files={os.fsdecode(name): oid for name, oid in _oids(extra, "gitdir").items()},
        operation_trees=extra.operation_trees,
        nested=_oids(extra, "nested"),
        skipped=[Skipped(item["path"], item["reason"]) for item in meta["skipped"]],
        staged=_paths(meta["staged_changes"]),
        unstaged=_paths(meta["unstaged_changes"]),
        untracked=_paths(meta["untracked_files"]),
        complete=bool(meta.get("complete", False)),
        folders=_modes(meta.get("folders", {})),
    )


def _paths(names: Iterable[str]) -> list[bytes]:
    return [os.fsencode(name) for name in names]


def _modes(fields: Mapping[str, str]) -> dict[bytes, int]:
    """Path -> mode, from octal strings."""
    return {os.fsencode(path): int(bits, 8) for path, bits in fields.items()}


def _oids(extra: Extra, group: str) -> dict[bytes, str]:
    return {path: oid for path, (_, oid) in extra.groups.get(group, {}).items()}


def _stages(entries: Mapping[bytes, trees.Entry]) -> dict[bytes, dict[int, trees.Entry]]:
    stages: dict[bytes, dict[int, trees.Entry]] = {}
    for path, entry in entries.items():
        n, _, name = path.partition(b"/")
        if n not in (b"1", b"2", b"3") or not name:
            raise ValueError(path)
        stages.setdefault(name, {})[int(n)] = entry
    return stages


def _rules(meta: Mapping[str, Any], blobs: Mapping[bytes, trees.Entry]) -> RulesOutside | None:
    if "excludes_file" not in meta:
        return None
    path = meta["excludes_file"]
    exclude, users = blobs.get(b"exclude"), blobs.get(b"users")
    return RulesOutside(exclude and exclude[1], users and users[1], None if path is None else os.fsencode(path))
