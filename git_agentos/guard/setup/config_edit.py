"""A block of our settings in a git configuration file, added and removed byte for byte.

The block is added at the end of the file: git takes the last value of a key, so ours is in force and no setting of the
user has to change. When the block is removed, this is left:

    the file as it was        where nobody has edited it (`before` and `after` are kept)
    the rest of the file      where the block is unchanged
    all but our settings      where somebody has edited the block: git removes them one by one

A file is changed under git's own lock, by one rename.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from git_agentos.errors import GuardError
from git_agentos.git import configuration, lockfile, process
from git_agentos.git.location import Location
from git_agentos.util import files
from git_agentos.util.named_tuple import NamedTuple

_LOCK_TIMEOUT = 5.0  # seconds that another git may lock the file
_NOT_SET = 5  # the exit code of `git config --unset` where there is no such setting
_CONTINUED = (b"\\\n", b"\\\r\n")  # ends of a line that continues on the next one
_NEEDS_QUOTES = re.compile(r"[\s;#]")


class Setting(NamedTuple):
    """A setting: `section` as in the file (`core`, `agentos "guard"`), `key` and `value` as text."""

    section: str
    key: str
    value: str

    @property
    def name(self) -> str:
        section, _, subsection = self.section.partition(" ")
        return ".".join([section, *([subsection.strip('"')] if subsection else []), self.key])


class ConfigEdit(NamedTuple):
    """An edit of the file at `path`. `before` is its content, None where there was no file; `after` the content with
    the block; `block` the bytes added; `values` the settings in it; `relocated` the settings that were removed from the
    rest of the file, and come back with `undo`."""

    path: str
    before: bytes | None
    after: bytes
    block: bytes
    values: tuple[Setting, ...]
    relocated: tuple[Setting, ...] = ()

    def document(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "path": self.path,
            "before": None if self.before is None else base64.b64encode(self.before).decode("ascii"),
            "after": base64.b64encode(self.after).decode("ascii"),
            "block": base64.b64encode(self.block).decode("ascii"),
            "values": [list(each) for each in self.values],
            "moved": [list(each) for each in self.relocated],
        }


def from_document(document: dict[str, Any]) -> ConfigEdit:
    """The reverse of `ConfigEdit.document`; ValueError, KeyError or TypeError for another form."""
    before = document["before"]
    return ConfigEdit(
        str(document["path"]),
        None if before is None else base64.b64decode(before),
        base64.b64decode(document["after"]),
        base64.b64decode(document["block"]),
        tuple(Setting(*map(str, each)) for each in document["values"]),
        tuple(Setting(*map(str, each)) for each in document["moved"]),
    )


# -- edits -------------------------------------------------------------------------------------------------------------


def plan(
    path: str,
    values: Sequence[Setting],
    comment: str,
    *,
    relocated: Sequence[Setting] = (),
    former: Sequence[Setting] = (),
) -> ConfigEdit:
    """The edit that adds `values` to the file at `path`; nothing is written. It removes `relocated`, and a block that
    is there already and sets `former`, or `values` where that is empty."""
    before = _without_commented(path, read(path), former or values, comment)
    rest = _remove_settings(path, before or b"", relocated, any_value=True)
    block = _block(rest, values, comment)
    return ConfigEdit(path, before, rest + block, block, tuple(values), tuple(relocated))


def plan_new(path: str, values: Sequence[Setting], comment: str) -> ConfigEdit:
    """The edit that replaces the file at `path` by one with only these values; nothing is written."""
    block = _block(b"", values, comment)
    return ConfigEdit(path, None, block, block, tuple(values))


def apply(location: Location, edit: ConfigEdit) -> None:
    """Write what `plan` has planned, unless it is there; LockedError where a git command locks the file for long."""

    def change(now: bytes | None) -> bytes | None:
        if now == edit.after or (now is not None and _is_intact(now, edit.block)):
            return now
        if now == edit.before:
            return edit.after
        return _with_block_at_end(edit, now)

    _replace(location, edit.path, change)


def move_to_end(location: Location, edit: ConfigEdit) -> None:
    """`apply`, behind everything that is in the file now."""
    _replace(location, edit.path, lambda now: _with_block_at_end(edit, now))


def undo(location: Location, edit: ConfigEdit) -> None:
    """Undo `apply`, as the module describes it. Nothing where it is undone already."""

    def change(now: bytes | None) -> bytes | None:
        if now is None:
            return None
        if now == edit.after:
            return edit.before
        rest = _without_block(edit, now)
        for each in edit.relocated:
            rest = _add_setting(edit.path, rest, each)
        return None if edit.before is None and not rest.strip() else rest

    _replace(location, edit.path, change)


def remove_block(location: Location, path: str, values: Sequence[Setting], comment: str) -> None:
    """Remove a block of which there is no record: git copies the file into worktrees that are created from one."""
    if has_block(path, comment):
        _replace(location, path, lambda now: _without_commented(path, now, values, comment))


# -- the state of a file -----------------------------------------------------------------------------------------------


def has_block(path: str, comment: str) -> bool:
    """Whether the file has a block with this comment."""
    return _comment_line(comment) in (read(path) or b"")


def has_lines(path: str, values: Sequence[Setting]) -> bool:
    """Whether the file has a line of git-agentos for each of the settings."""
    content = read(path) or b""
    return all(_setting_line(each) in content for each in values)


def missing_settings(edit: ConfigEdit) -> list[Setting]:
    """The settings of an edit that the file does not set any more, or sets otherwise further down. git is started only
    where the file was edited in a way that may matter."""
    now = read(edit.path)
    if now == edit.after or _is_certainly_last(now or b"", edit):
        return []
    return settings_not_in_force(edit.path, edit.values)


def settings_not_in_force(path: str, values: Sequence[Setting]) -> list[Setting]:
    """Those of the settings that are not the last ones for their keys, as git reads the file."""
    actual = configuration.read_file(path, includes=True)
    return [each for each in values if actual.get(each.name.lower(), [""])[-1] != each.value]


def _is_certainly_last(content: bytes, edit: ConfigEdit) -> bool:
    """Whether the block is in the file, and nothing behind it can set one of its keys or include a file. Where this is
    false, only git can tell."""
    if not _is_intact(content, edit.block):
        return False
    behind = content[content.find(edit.block) + len(edit.block) :].lower()
    return not any(word in behind for word in (b"include", *(os.fsencode(each.key.lower()) for each in edit.values)))


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
    """Whether `read` can read it; a file that does not exist counts as readable."""
    try:
        read(path)
    except (GuardError, OSError):
        return False
    return True


# -- the block ---------------------------------------------------------------------------------------------------------


def _block(content: bytes, values: Sequence[Setting], comment: str) -> bytes:
    """The bytes to append to `content`."""
    block = b"" if not content or (content.endswith(b"\n") and not content.endswith(_CONTINUED)) else b"\n"
    section = None
    for each in values:
        if each.section != section:
            block += b"[" + os.fsencode(each.section) + b"]\n"
            if section is None:
                block += _comment_line(comment)
            section = each.section
        block += _setting_line(each)
    return block


def comment_of(block: bytes) -> str:
    """The comment of a block."""
    line = next((line for line in block.split(b"\n") if line.startswith(b"\t# ")), b"\t# ")
    return os.fsdecode(line.removeprefix(b"\t# "))


def _comment_line(text: str) -> bytes:
    return b"\t# " + os.fsencode(text) + b"\n"


def _setting_line(each: Setting) -> bytes:
    text = each.value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    if _NEEDS_QUOTES.search(text) or text == "":
        text = f'"{text}"'
    return os.fsencode(f"\t{each.key} = {text}\n")


def _is_intact(content: bytes, block: bytes) -> bool:
    """Whether the block is in the file as it was written, and its last section has no other settings."""
    start = content.find(block)
    if start < 0 or content[:start].endswith(_CONTINUED):
        return False  # also where the line before it continues in the block
    for line in content[start + len(block) :].split(b"\n"):
        stripped = line.strip()
        if stripped and not stripped.startswith((b"#", b";")):
            return stripped.startswith(b"[")
    return True


def _with_block_at_end(edit: ConfigEdit, content: bytes | None) -> bytes:
    """`content` with the block at its end, and nowhere else."""
    rest = _remove_settings(edit.path, _without_block(edit, content or b""), edit.relocated, any_value=True)
    return rest + _block(rest, edit.values, comment_of(edit.block))


def _without_block(edit: ConfigEdit, content: bytes) -> bytes:
    """`content` without the block, or without our settings where the block was edited."""
    start = content.find(edit.block)
    if start >= 0 and (_is_intact(content, edit.block) or content[:start].endswith(_CONTINUED)):
        return content.replace(edit.block, b"", 1)
    line = _comment_line(comment_of(edit.block))
    return _remove_settings(edit.path, content.replace(line, b"", 1), edit.values)


def _without_commented(path: str, content: bytes | None, values: Sequence[Setting], comment: str) -> bytes | None:
    """`content` without a block that has this comment; None where nothing is left."""
    line = _comment_line(comment)
    if content is None or line not in content:
        return content
    rest = _remove_settings(path, content.replace(line, b""), values)
    return rest if rest.strip() else None


# -- changes by git ----------------------------------------------------------------------------------------------------


def _remove_settings(path: str, content: bytes, values: Sequence[Setting], *, any_value: bool = False) -> bytes:
    """`content` without these settings; other values of the same keys stay, except with `any_value`."""
    if not values:
        return content
    with _copy(path, content) as copy:
        for each in values:
            which = [each.name] if any_value else ["--fixed-value", each.name, each.value]
            args = ["config", "--file", copy, "--no-includes", "--unset-all", *which]
            process.run(args, cwd=os.path.dirname(copy), ok=(0, _NOT_SET))
        return read(copy) or b""


def _add_setting(path: str, content: bytes, each: Setting) -> bytes:
    with _copy(path, content) as copy:
        process.run(["config", "--file", copy, each.name, each.value], cwd=os.path.dirname(copy))
        return read(copy) or b""


@contextlib.contextmanager
def _copy(path: str, content: bytes) -> Iterator[str]:
    """A file with `content` that git may edit, in a folder of its own."""
    import tempfile  # it takes long to import

    with tempfile.TemporaryDirectory(prefix="agentos-config-") as folder:
        copy = os.path.join(folder, os.path.basename(path))
        with open(copy, "wb") as file:
            file.write(content)
        yield copy


def _replace(location: Location, path: str, change: Callable[[bytes | None], bytes | None]) -> None:
    """Replace the content of the file by the result of `change`, under git's lock; None removes the file."""
    path = os.path.realpath(path)  # as git does: the file that a link leads to is changed
    lock = lockfile.acquire(location, path, patience=_LOCK_TIMEOUT)
    try:
        now = read(path)
        new = change(now)
        if new is None or new == now:
            if new is None and now is not None:
                os.unlink(path)
            lockfile.release(lock)
            return
        os.write(lock.descriptor, new)
        if now is not None:
            os.fchmod(lock.descriptor, os.stat(path).st_mode & 0o777)
    except BaseException:
        lockfile.release(lock)
        raise
    lockfile.commit(lock, path)
