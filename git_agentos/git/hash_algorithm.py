"""The hash algorithm of a repository: how long its object ids are, and how they are computed.

An object's id is the hash of `<kind> SP <size> NUL <content>` (gitformat-pack(5), hash-function-transition in git's
technical documentation). Standard library only.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from git_agentos.util.named_tuple import NamedTuple
from git_agentos.util.values import is_hex

if TYPE_CHECKING:
    from hashlib import _Hash

_CHUNK = 1 << 20


class HashAlgorithm(NamedTuple):
    """One of git's hash algorithms, by its name in `extensions.objectFormat`."""

    name: str
    hex_length: int  # digits of an object id
    raw_length: int  # bytes of an object id in trees, packs and the index
    zero: str  # the id that names no object
    empty_tree: str
    function: Callable[..., Any]  # of hashlib

    def new(self, data: bytes = b"") -> _Hash:
        """A hash object that has digested `data`."""
        made: _Hash = self.function(data, usedforsecurity=False)
        return made

    def object_id(self, kind: str, data: bytes) -> str:
        """The oid of an object's content."""
        return self.new(b"%b %d\0%b" % (kind.encode(), len(data), data)).hexdigest()

    def hash_blob(self, data: bytes) -> str:
        """The oid that these bytes have as a blob."""
        digest = self.new(b"blob %d\0" % len(data))
        digest.update(data)
        return digest.hexdigest()

    def hash_file(self, path: str | bytes) -> str | None:
        """The oid that a file's bytes would have as a blob; None if it cannot be read."""
        try:
            with open(path, "rb") as file:
                digest = self.new(b"blob %d\0" % os.fstat(file.fileno()).st_size)
                while chunk := file.read(_CHUNK):
                    digest.update(chunk)
        except OSError:
            return None
        return digest.hexdigest()

    def is_oid(self, text: str) -> bool:
        """Whether `text` is a complete object id (lower case, as git prints it)."""
        return len(text) == self.hex_length and is_hex(text)

    def can_be_prefix(self, text: str) -> bool:
        """Whether `text` can be the beginning of an object id, or a complete one."""
        return len(text) <= self.hex_length and is_hex(text)


SHA1 = HashAlgorithm("sha1", 40, 20, "0" * 40, "4b825dc642cb6eb9a060e54bf8d69288fbee4904", hashlib.sha1)
SHA256 = HashAlgorithm(
    "sha256", 64, 32, "0" * 64, "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321", hashlib.sha256
)
BY_NAME = {each.name: each for each in (SHA1, SHA256)}


def is_any_oid(text: str) -> bool:
    """Whether `text` is an object id of some algorithm: for records that more than one repository can have written."""
    return any(each.is_oid(text) for each in BY_NAME.values())


def oids_in(text: str) -> list[str]:
    """The words of a text that are complete object ids of some algorithm."""
    return [word for word in re.findall(r"(?<![0-9a-f])[0-9a-f]+(?![0-9a-f])", text) if is_any_oid(word)]


def of_oid(oid: str) -> HashAlgorithm:
    """The algorithm that computed a complete object id; ValueError if none did."""
    for each in BY_NAME.values():
        if each.is_oid(oid):
            return each
    raise ValueError(f"'{oid}' is not an object id")
