"""Lines of ours in a git configuration file, put there and taken away byte for byte.

What is added is a block at the end of the file: git takes the last value of a key, so the block's holds, and nothing of
the user's is touched to get it. Taken away, it leaves

    the file as it was        where nobody has edited it in between (`before` and `after` are kept)
    the rest of the file      where the block still stands as it was written
    all but our values        where somebody has edited the block: git takes them out one by one

Changes are made under git's own lock, by one rename.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import tempfile
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from git_agentos.errors import GuardError
from git_agentos.git import locks, process
from git_agentos.git.location import Location
from git_agentos.util import files

_PATIENCE = 5.0  # seconds that another git may hold the file
_NOT_SET = 5  # what `git config --unset` answers
_GOES_ON = (b"\\\n", b"\\\r\n")  # the end of a line that the next one belongs to
_NOT_ALONE = re.compile(r"[\s;#]")


class Value(NamedTuple):
    """One value: `section` as in the file (`core`, `agentos "guard"`), `key` and `value` as text."""

    section: str
    key: str
    value: str

    @property
    def name(self) -> str:
        section, _, below = self.section.partition(" ")
        return ".".join([section, *([below.strip('"')] if below else []), self.key])


class Added(NamedTuple):
    """What was added to the file at `path`: `before` is None where there was no file; `block` the bytes added; `values`
    what they say; `moved` what was taken out of the rest of the file, to be put back."""

    path: str
    before: bytes | None
    after: bytes
    block: bytes
    values: tuple[Value, ...]
    moved: tuple[Value, ...] = ()

    def document(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "path": self.path,
            "before": None if self.before is None else base64.b64encode(self.before).decode("ascii"),
            "after": base64.b64encode(self.after).decode("ascii"),
            "block": base64.b64encode(self.block).decode("ascii"),
            "values": [list(each) for each in self.values],
            "moved": [list(each) for each in self.moved],
        }


def from_document(document: dict[str, Any]) -> Added:
    """The reverse of `Added.document`; ValueError, KeyError or TypeError for what is none."""
    before = document["before"]
    return Added(
        str(document["path"]),
        None if before is None else base64.b64decode(before),
        base64.b64decode(document["after"]),
        base64.b64decode(document["block"]),
        tuple(Value(*map(str, each)) for each in document["values"]),
        tuple(Value(*map(str, each)) for each in document["moved"]),
    )


def plan(
    path: str,
    values: Sequence[Value],
    comment: str,
    *,
    moved: Sequence[Value] = (),
    former: Sequence[Value] = (),
    fresh: bool = False,
) -> Added:
    """What adding `values` to the file at `path` would make of it; nothing is written. `moved` are taken out of it, and
    so is a block that is there, which sets `former` or the same; `fresh` makes it a file of ours, whatever is in it."""
    before = None if fresh else _stripped(path, read(path), former or values, comment)
    rest = _without(path, before or b"", moved, whatever=True)
    block = _block(rest, values, comment)
    return Added(path, before, rest + block, block, tuple(values), tuple(moved))


def add(location: Location, added: Added) -> None:
    """Write what `plan` has planned, unless it is there; LockedError where a git command holds the file for long."""

    def change(now: bytes | None) -> bytes | None:
        if now == added.after or (now is not None and _stands(now, added.block)):
            return now
        if now == added.before:
            return added.after
        return _at_end(added, now)

    _edit(location, added.path, change)


def move_to_end(location: Location, added: Added) -> None:
    """`add`, behind everything else that is in the file by now, whatever that says."""
    _edit(location, added.path, lambda now: _at_end(added, now))


def take_away(location: Location, added: Added) -> None:
    """Undo `add`; see the module's docstring. Nothing where it is gone already."""

    def change(now: bytes | None) -> bytes | None:
        if now is None:
            return None
        if now == added.after:
            return added.before
        rest = _without_block(added, now)
        for each in added.moved:
            rest = _with(added.path, rest, each)
        return None if added.before is None and not rest.strip() else rest

    _edit(location, added.path, change)


def strip(location: Location, path: str, values: Sequence[Value], comment: str) -> None:
    """Take a block out that nothing is on record of: git copies the file into worktrees that are made from one."""
    if mentions(path, comment):
        _edit(location, path, lambda now: _stripped(path, now, values, comment))


def mentions(path: str, comment: str) -> bool:
    """Whether there is a block in the file that says so in its comment."""
    return _comment(comment) in (read(path) or b"")


def says(path: str, values: Sequence[Value]) -> bool:
    """Whether each value stands in the file as a line of ours."""
    content = read(path) or b""
    return all(_line(each) in content for each in values)


def lost(added: Added) -> list[Value]:
    """Those of the values that the file does not say any more, or not in the end. git is asked only where the file was
    edited in a way that may matter."""
    now = read(added.path)
    if now == added.after or _says_last(now or b"", added):
        return []
    return not_last(added.path, added.values)


def not_last(path: str, values: Sequence[Value]) -> list[Value]:
    """Those of the values that the file does not say, or not in the end, as git reads it."""
    said = values_of(path, includes=True)
    return [each for each in values if said.get(each.name.lower(), [""])[-1] != each.value]


def _says_last(content: bytes, added: Added) -> bool:
    """Whether the block stands in the file, with nothing behind it that could set one of its keys or include a file.
    False says nothing: git has to be asked."""
    if not _stands(content, added.block):
        return False
    behind = content[content.find(added.block) + len(added.block) :].lower()
    return not any(word in behind for word in (b"include", *(os.fsencode(each.key.lower()) for each in added.values)))


def read(path: str) -> bytes | None:
    """The file's bytes; None where there is none."""
    try:
        return files.read(path, follow=True)
    except FileNotFoundError:
        return None
    except files.NotRegularError:
        raise GuardError(f"'{path}' is not a file", "git cannot read its configuration there: move it away") from None
    except OSError as error:
        message = f"'{path}' cannot be read: {error.strerror}"
        raise GuardError(message, "git cannot read its configuration there either") from None


def is_readable(path: str) -> bool:
    """Whether `read` can read it, which a file that is not there can be too."""
    try:
        read(path)
    except (GuardError, OSError):
        return False
    return True


def values_of(path: str, *, includes: bool = False) -> dict[str, list[str]]:
    """What the file says: lower-cased key -> values. Empty where there is none."""
    if not os.path.exists(path):
        return {}
    which = "--includes" if includes else "--no-includes"
    out = process.run(["config", "--file", path, which, "--null", "--list"], cwd=os.path.dirname(path))
    found: dict[str, list[str]] = {}
    for item in out.split(b"\0")[:-1]:
        key, equals, value = item.partition(b"\n")
        found.setdefault(os.fsdecode(key), []).append(os.fsdecode(value) if equals else "true")
    return found


# -- the block ---------------------------------------------------------------------------------------------------------


def _block(content: bytes, values: Sequence[Value], comment: str) -> bytes:
    """The bytes to append to `content`."""
    out = b"" if not content or (content.endswith(b"\n") and not content.endswith(_GOES_ON)) else b"\n"
    section = None
    for each in values:
        if each.section != section:
            out += b"[" + os.fsencode(each.section) + b"]\n"
            if section is None:
                out += _comment(comment)
            section = each.section
        out += _line(each)
    return out


def _at_end(added: Added, content: bytes | None) -> bytes:
    """`content` with the block at its end, and nowhere else."""
    rest = _without(added.path, _without_block(added, content or b""), added.moved, whatever=True)
    return rest + _block(rest, added.values, comment_of(added.block))


def _without_block(added: Added, content: bytes) -> bytes:
    """`content` without the block, or without our values where it was edited."""
    start = content.find(added.block)
    if start >= 0 and (_stands(content, added.block) or content[:start].endswith(_GOES_ON)):
        return content.replace(added.block, b"", 1)
    line = _comment(comment_of(added.block))
    return _without(added.path, content.replace(line, b"", 1), added.values)


def _stripped(path: str, content: bytes | None, values: Sequence[Value], comment: str) -> bytes | None:
    """`content` without a block that says so in its comment; None where nothing is left."""
    line = _comment(comment)
    if content is None or line not in content:
        return content
    rest = _without(path, content.replace(line, b""), values)
    return rest if rest.strip() else None


def _comment(text: str) -> bytes:
    return b"\t# " + os.fsencode(text) + b"\n"


def comment_of(block: bytes) -> str:
    """The comment that a block begins with."""
    line = next((line for line in block.split(b"\n") if line.startswith(b"\t# ")), b"\t# ")
    return os.fsdecode(line.removeprefix(b"\t# "))


def _line(each: Value) -> bytes:
    text = each.value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    if _NOT_ALONE.search(text) or text == "":
        text = f'"{text}"'
    return os.fsencode(f"\t{each.key} = {text}\n")


def _stands(content: bytes, block: bytes) -> bool:
    """Whether the block is in the file as it was written, and nothing has been added to its last section."""
    start = content.find(block)
    if start < 0 or content[:start].endswith(_GOES_ON):
        return False  # also where the line before goes on in its first
    for line in content[start + len(block) :].split(b"\n"):
        stripped = line.strip()
        if stripped and not stripped.startswith((b"#", b";")):
            return stripped.startswith(b"[")
    return True


def _without(path: str, content: bytes, values: Sequence[Value], *, whatever: bool = False) -> bytes:
    """`content` without these values, as git takes them out; other values of the same keys stay, unless `whatever`."""
    if not values:
        return content
    with _copy(path, content) as copy:
        for each in values:
            which = [each.name] if whatever else ["--fixed-value", each.name, each.value]
            args = ["config", "--file", copy, "--no-includes", "--unset-all", *which]
            process.run(args, cwd=os.path.dirname(copy), ok=(0, _NOT_SET))
        return read(copy) or b""


def _with(path: str, content: bytes, each: Value) -> bytes:
    with _copy(path, content) as copy:
        process.run(["config", "--file", copy, each.name, each.value], cwd=os.path.dirname(copy))
        return read(copy) or b""


@contextlib.contextmanager
def _copy(path: str, content: bytes) -> Any:
    """A file with `content` that git may edit, in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="agentos-config-") as folder:
        copy = os.path.join(folder, os.path.basename(path))
        with open(copy, "wb") as file:
            file.write(content)
        yield copy


def _edit(location: Location, path: str, change: Callable[[bytes | None], bytes | None]) -> None:
    """Replace the file by what `change` makes of it, under git's lock; None removes it."""
    path = os.path.realpath(path)  # as git does: the link stays, what it leads to changes
    held = locks.acquire(location, path, patience=_PATIENCE)
    try:
        now = read(path)
        new = change(now)
        if new is None or new == now:
            if new is None and now is not None:
                os.unlink(path)
            locks.release(held)
            return
        os.write(held.descriptor, new)
        if now is not None:
            os.fchmod(held.descriptor, os.stat(path).st_mode & 0o777)
    except BaseException:
        locks.release(held)
        raise
    locks.commit(held, path)
