"""What programs that are not git do to files: which they delete or overwrite, as far as their command line tells.

Two things depend on it: nobody but git writes into a git directory, and the harness layer saves the state before an
agent's `rm`. Names are taken as the shell hands them over; what it would make of `*` is looked up.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from git_agentos.guard.devices import is_device
from git_agentos.guard.shell.programs import base, names_a_git_directory
from git_agentos.guard.shell.words import UNKNOWN, known

_ALL = frozenset(
    "rm rmdir unlink shred srm trash trash-put gio truncate touch mkdir chmod chown chgrp chattr setfacl tee sponge "
    "mv grm gmv".split()
)
_LAST = frozenset("cp gcp install ginstall ln gln rsync scp link".split())
_IN_PLACE = {"sed": "i", "gsed": "i", "perl": "i", "ruby": "i", "sd": "", "gawk": ""}
_VALUES = {
    "truncate": frozenset({"-s", "--size", "-r", "--reference"}), "touch": frozenset({"-d", "-t", "-r", "--date"}),
    "cp": frozenset({"-t", "-S", "--target-directory", "--suffix"}), "mv": frozenset({"-S", "--suffix"}),
    "install": frozenset({"-m", "-o", "-g", "-S", "--mode", "--owner", "--group"}),
    "mkdir": frozenset({"-m", "--mode"}),
    "rsync": frozenset({"-e", "--rsh", "--exclude", "--include", "--filter", "-f", "--files-from"}),
    "shred": frozenset({"-n", "-s", "--iterations", "--size"}), "ln": frozenset({"-S", "-t", "--target-directory"}),
}  # fmt: skip
_OUTPUT = {
    "curl": ("-o", "--output", "--output-dir"), "wget": ("-O", "-P", "--output-document", "--directory-prefix"),
    "sort": ("-o", "--output"), "gcc": ("-o",), "cc": ("-o",), "openssl": ("-out",), "yq": (), "jq": (),
}  # fmt: skip
_HARMLESS = frozenset({"touch", "mkdir", "chmod", "chown", "chgrp", "chattr", "setfacl", "ln", "gln", "link", "rmdir"})


class Files(NamedTuple):
    """`paths` are deleted or written to, `trees` are deleted with all that is below; `loses`: bytes may be gone."""

    paths: tuple[str, ...] = ()
    trees: tuple[str, ...] = ()
    loses: bool = False


def touched(argv: Sequence[str]) -> Files:
    """What a program does to the files that it is given."""
    name = base(argv[0])
    words = list(argv[1:])
    if name in ("find", "gfind"):
        return _find(words)
    if name == "dd":
        targets = tuple(word[3:] for word in words if word.startswith("of="))
        return Files(targets, loses=bool(targets))
    if name in _IN_PLACE:
        return _in_place(name, words)
    if name in ("tar", "gtar", "bsdtar", "unzip", "7z", "cpio", "patch"):
        return _unpack(name, words)
    if name in _OUTPUT:
        written = _values_of(words, _OUTPUT[name])
        return Files(tuple(written), loses=bool(written))
    operands, options = _operands(words, _VALUES.get(name, frozenset()))
    if name in _ALL:
        if name == "gio" and operands[:1] not in (["trash"], ["remove"]):
            return Files()
        paths = tuple(operands)
        recursive = any(o.startswith("-") and not o.startswith("--") and set(o) & set("rR") for o in options) or any(
            o.startswith("--rec") for o in options
        )
        whole = name in ("mv", "gmv") or (recursive and name in ("rm", "grm", "srm")) or name.startswith("trash")
        asks = any(option in ("--help", "--version") for option in options)
        if asks:
            return Files()
        loses = name not in _HARMLESS and bool(paths)
        moved = paths[:-1] if name in ("mv", "gmv") else paths
        return Files(paths, moved if whole else (), loses)
    if name in _LAST:
        given = [option.partition("=")[2] for option in options if option.startswith("--target-directory=")]
        given += [words[n + 1] for n, word in enumerate(words[:-1]) if word in ("-t", "--target-directory")]
        last = given or operands[-1:]
        deletes = name == "rsync" and any(option.startswith("--del") for option in options)
        return Files(tuple(last), tuple(last) if deletes else (), name not in _HARMLESS and bool(last))
    return Files()


def _operands(words: Sequence[str], values: frozenset[str]) -> tuple[list[str], list[str]]:
    operands: list[str] = []
    options: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return operands + rest, options
        if word.startswith("-") and word != "-":
            options.append(word)
            if word in values and rest:
                rest.pop(0)
        else:
            operands.append(word)
    return operands, options


def _in_place(name: str, words: Sequence[str]) -> Files:
    letter = _IN_PLACE[name]
    on = any(w.startswith("--in-place") or w == "-iinplace" for w in words) or (
        letter and any(w.startswith("-") and not w.startswith("--") and letter in w[1:] for w in words)
    )
    on = on or name == "sd"
    if not on:
        return Files()
    return Files(tuple(word for word in words if not word.startswith("-")), loses=True)


def _unpack(name: str, words: Sequence[str]) -> Files:
    """Where an archive is unpacked to, if it is named."""
    if name == "patch":
        return Files(tuple(word for word in words if not word.startswith("-")), loses=True)
    return Files(tuple(_values_of(words, ("-C", "-d", "--directory"))))


def _values_of(words: Sequence[str], options: Sequence[str]) -> list[str]:
    """The values of some options, behind them or joined to them."""
    found = [words[n + 1] for n, word in enumerate(words[:-1]) if word in options]
    for option in options:
        start = option + "=" if option.startswith("--") else option
        found += [word[len(start) :] for word in words if word.startswith(start) and word != option]
    return found


def _find(words: Sequence[str]) -> Files:
    """`find ROOT… -delete`; one that looks for certain names deletes in a git directory what is called so there."""
    first = next((n for n, word in enumerate(words) if word[:1] in ("-", "(", "!")), len(words))
    roots = tuple(words[:first]) or (".",)
    written = tuple(words[n + 1] for n, word in enumerate(words[:-1]) if word in ("-fprint", "-fprint0", "-fls"))
    if "-delete" not in words:
        return Files(written)
    tests = [words[n + 1] for n, word in enumerate(words[:-1]) if word in ("-name", "-iname", "-path", "-wholename")]
    harmless = [test for test in tests if not names_a_git_directory(test)]
    spared = any("-not" in words[n : n + 1] or words[n] == "!" for n in range(len(words))) and any(
        ".git" in test for test in tests
    )
    whole = not (harmless or spared or "-empty" in words)
    return Files((*written, *roots), roots if whole else (), True)


# -- git directories ---------------------------------------------------------------------------------------------------


def git_directories(directory: str) -> tuple[str, ...]:
    """What git keeps of the worktree that `directory` is in: its `.git`, its git directory, and the common one."""
    place = directory
    while True:
        dot = os.path.join(place, ".git")
        if os.path.lexists(dot):
            break
        if os.path.dirname(place) == place:
            return ()
        place = os.path.dirname(place)
    found = [dot]
    if os.path.isfile(dot):
        own = os.path.join(place, first_line(dot).removeprefix("gitdir:").strip())
        found.append(os.path.realpath(own))
        common = first_line(os.path.join(own, "commondir"))
        if common:
            found.append(os.path.realpath(os.path.join(own, common.strip())))
    else:
        found.append(os.path.realpath(dot))
    return tuple(dict.fromkeys(found))


def first_line(path: str) -> str:
    """The first line of a file, empty where it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.readline().rstrip("\n")
    except OSError:
        return ""


def in_git_directory(files: Files, directory: str, own: Iterable[str]) -> str | None:
    """The first path of `files` that is, or is in, or would take along, a git directory; None where there is none.
    `own` are those of the worktree that the program stands in."""
    own = tuple(own)
    trees = frozenset(files.trees)
    for word in dict.fromkeys((*files.paths, *files.trees)):
        for path in _named(word, directory):
            if ".git" in path.split(os.sep):
                return word
            real = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
            for git_dir in own:
                if _below(path, git_dir) or _below(real, git_dir) or _below(os.path.realpath(path), git_dir):
                    return word
                if word in trees and (_below(git_dir, path) or _below(git_dir, real)):
                    return word
    return None


def exists(files: Files, directory: str) -> bool:
    """Whether there is anything to lose: one of the files is there, or it is not known which they are."""
    return any(
        not known(word) or any(os.path.lexists(path) and not is_device(path) for path in _named(word, directory))
        for word in (*files.paths, *files.trees)
    )


def _named(word: str, directory: str) -> list[str]:
    """The paths that a word stands for."""
    if not known(word):
        # Only what is known of it: $X/.git is one, $X/build is not, .git/$X is.
        before, after = word.partition(UNKNOWN)[0].rpartition("/"), word.rpartition(UNKNOWN)[2].partition("/")
        found = [os.path.normpath("/" + after[2])] if after[1] else []
        return [*found, os.path.normpath(os.path.join(directory, before[0] or "/"))] if before[1] else found
    path = os.path.join(directory, word)
    names = glob.glob(path) if glob.has_magic(word) else []
    return [os.path.normpath(name) for name in (names or [path])]


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
