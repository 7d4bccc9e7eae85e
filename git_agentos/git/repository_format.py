"""The format of a repository: `extensions.*` in its own configuration file, and whether git-agentos can serve it.

git reads them from no other file (`repository-version` in git's technical documentation). Standard library only.
"""

from __future__ import annotations

import contextlib
import os

from git_agentos.errors import UnsupportedRepository
from git_agentos.git.hash_algorithm import BY_NAME, SHA1, HashAlgorithm
from git_agentos.util.named_tuple import NamedTuple

# Extensions that change nothing for us; git itself follows them in what it does for us.
_SERVED = frozenset(
    {
        "noop",
        "noop-v1",
        "objectformat",
        "partialclone",
        "preciousobjects",
        "refstorage",
        "relativeworktrees",
        "submodulepathconfig",
        "worktreeconfig",
    }
)
# With two object formats, git records for each object its id in the other one. Objects that we write would have none.
_COMPAT = "compatobjectformat"
FILES = "files"
REFTABLE = "reftable"


class RepositoryFormat(NamedTuple):
    """What git-agentos must know of a repository's format."""

    hash: HashAlgorithm = SHA1
    refs: str = FILES
    # extensions.refStorage is set, even to files: libgit2 opens no such repository.
    names_refs: bool = False


DEFAULT = RepositoryFormat()  # of every git until 3.0: SHA-1, and refs in files


def read(common_dir: str) -> RepositoryFormat:
    """The format of a repository. UnsupportedRepository if git-agentos cannot serve it."""
    core, found = _sections(common_dir)
    if _COMPAT in found:
        raise UnsupportedRepository(
            "this repository uses two object formats (extensions.compatObjectFormat), which git-agentos does not"
            " support: git would not know the second id of what checkpoints add",
            "git-agentos works with repositories that have one object format, sha1 or sha256",
        )
    # In version 0, git ignores extensions that it does not know.
    version = core.get("repositoryformatversion", "0")
    if version not in ("0", "1"):
        raise UnsupportedRepository(
            f"the repository at '{common_dir}' cannot be opened: its format has version {version}",
            "a newer git may support it (git --version)",
        )
    if version != "0":
        refuse(found.keys() - _SERVED)
    algorithm = BY_NAME.get(found.get("objectformat", SHA1.name))
    if algorithm is None:
        raise unsupported(f"the object format {found['objectformat']} (extensions.objectFormat)")
    refs = found.get("refstorage", FILES)
    if refs == REFTABLE and version == "0":
        # A git that does not know the extension would use files, beside the tables.
        raise unsupported("the reftable format for refs in a repository of version 0 (core.repositoryFormatVersion)")
    if refs not in (FILES, REFTABLE):
        raise unsupported(f"the format {refs} for refs (extensions.refStorage)")
    return RepositoryFormat(algorithm, refs, names_refs="refstorage" in found)


def refuse(extensions: set[str]) -> None:
    """UnsupportedRepository if there is one; none is known to git-agentos."""
    if extensions:
        raise unsupported(", ".join(f"extensions.{each}" for each in sorted(extensions)))


def unsupported(feature: str) -> UnsupportedRepository:
    """The error for a repository with a feature that git-agentos does not know."""
    return UnsupportedRepository(
        f"this repository uses {feature}, which git-agentos does not support",
        "git-agentos works with object formats sha1 and sha256, and with refs in files and reftables",
    )


def _sections(common_dir: str) -> tuple[dict[str, str], dict[str, str]]:
    """The keys and values of `core` and `extensions`, in lower case."""
    found: dict[str, dict[str, str]] = {"core": {}, "extensions": {}}
    section: dict[str, str] | None = None
    with contextlib.suppress(OSError), open(os.path.join(common_dir, "config"), errors="surrogateescape") as file:
        for line in map(str.strip, file):
            rest = line
            if line.startswith("["):
                name, _, rest = line[1:].partition("]")
                section = found.get(name.strip().lower())  # with a subsection, it is another one
            key, equals, value = rest.partition("#")[0].partition(";")[0].partition("=")
            if section is not None and key.strip():
                section[key.strip().lower()] = value.replace('"', "").strip().lower() if equals else "true"
    return found["core"], found["extensions"]
