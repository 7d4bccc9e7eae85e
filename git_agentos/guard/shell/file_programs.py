"""What programs other than git do to files: which they write to or delete, as far as their command line says.

Named targets decide whether a command may run, and which ignored files are saved first. A program that may change other
files (`may_write`) is preceded by a checkpoint in any case. Words are taken as the shell passes them; `*` is expanded.
"""

from __future__ import annotations

import fnmatch
import glob
import os
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from git_agentos.git import gitfile
from git_agentos.guard.paths import is_below, is_device
from git_agentos.guard.shell.runners import base, names_a_git_directory
from git_agentos.guard.shell.words import UNKNOWN, known

_ALL = frozenset(
    "rm rmdir unlink shred srm trash trash-put gio truncate touch mkdir chmod chown chgrp chattr setfacl tee sponge "
    "mv mkfifo mknod mktemp rename".split()
)
_LAST = frozenset("cp install ginstall ln rsync scp link".split())
_IN_PLACE = {"sed": "i", "perl": "i", "ruby": "i", "sd": "", "gawk": ""}
_VALUES = {
    "truncate": frozenset({"-s", "--size", "-r", "--reference"}), "touch": frozenset({"-d", "-t", "-r", "--date"}),
    "cp": frozenset({"-t", "-S", "--target-directory", "--suffix"}),
    "mv": frozenset({"-S", "--suffix", "-t", "--target-directory"}),
    "install": frozenset({"-m", "-o", "-g", "-S", "-t", "--mode", "--owner", "--group", "--target-directory"}),
    "mkdir": frozenset({"-m", "--mode"}), "mkfifo": frozenset({"-m", "--mode"}), "mknod": frozenset({"-m", "--mode"}),
    "rsync": frozenset({"-e", "--rsh", "--exclude", "--include", "--filter", "-f", "--files-from"}),
    "shred": frozenset({"-n", "-s", "--iterations", "--size"}), "ln": frozenset({"-S", "-t", "--target-directory"}),
    "mktemp": frozenset({"-p", "--suffix"}),
}  # fmt: skip
_OUTPUT = {
    "curl": ("-o", "--output", "--output-dir"), "wget": ("-O", "-P", "--output-document", "--directory-prefix"),
    "sort": ("-o", "--output"), "gcc": ("-o",), "cc": ("-o",), "openssl": ("-out",), "yq": (), "jq": (),
}  # fmt: skip
_EDITORS = frozenset("ed ex vi vim nvim nano micro emacs".split())
_PACKERS = frozenset("gzip gunzip bzip2 bunzip2 xz unxz lzma unlzma zstd unzstd compress uncompress pigz".split())
_HARMLESS = frozenset({"touch", "mkdir", "chmod", "chown", "chgrp", "chattr", "setfacl", "link", "rmdir", "mkfifo",
                       "mknod", "mktemp"})  # fmt: skip
_ARCHIVERS = frozenset({"tar", "bsdtar", "unzip", "7z", "7za", "cpio", "patch", "bsdcpio"})
# Programs that change no files. A redirection belongs to the shell.
_READS = frozenset(
    """: [ [[ ack ag alias apropos arch awk b2sum base32 base64 basename bat bc cal cat cd cksum clear cloc cmp col
    column comm cut date dc delta df diff diff3 dig dir dirname dmesg du echo egrep env eza exa expand expr factor false
    fd fdfind fgrep file find fold fmt free getconf getent getopt grep groups hash head hexdump hexyl host hostname id
    info join jobs jq kill killall last less lesspipe locale locate look ls lsb_release lsblk lscpu lsof lstat man
    md5sum more netstat nl nm nproc nslookup numfmt objdump od paste pathchk pgrep ping pkill pr printenv printf ps
    pstree pwd
    readelf readlink realpath rev rg sdiff seq set sha1sum sha224sum sha256sum sha384sum sha512sum shasum shuf size
    sleep sort ss stat strings stty sum tac tail test time tldr tokei top tput tr tree true tsort tty type ulimit uname
    unexpand uniq uptime users vmstat w wait wc whatis whence whereis which who whoami xxd yes yq zcat zgrep zless
    export unset declare local readonly typeset sed hyperfine watch""".split()
)
_DELETING = frozenset("rm unlink shred srm mv truncate trash trash-put rmdir".split())
_AWKS = frozenset({"awk", "gawk", "mawk", "nawk"})
_AWK_WRITES = re.compile(r"system\s*\(|getline|[|>]")
_SED_WRITES = re.compile(r"(?:^|[;{}\d/$!,]|\s)[wWe](?:\s|$)|/[gpiIm0-9]*[we](?:\s|$|;)")


class Files(NamedTuple):
    """`paths` are deleted or written to, `deleted_trees` are deleted with all that is below, something is written
    `into` folders, or something deleted `below` them; `overwrites`: content may be lost. With `names`, only files with
    such names."""

    paths: tuple[str, ...] = ()
    deleted_trees: tuple[str, ...] = ()
    overwrites: bool = False
    into: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    below: bool = False


def files_written_by(argv: Sequence[str], directory: str = ".") -> Files | None:
    """What a program started in `directory` does to the files that it is given; None if its command line does
    not say."""
    name = plain(argv[0])
    words = list(argv[1:])
    if name == "find":
        return _find(words)
    if name == "dd":
        targets = tuple(word[3:] for word in words if word.startswith("of="))
        return Files(targets, overwrites=bool(targets))
    if name in _IN_PLACE and (found := _in_place(name, words)) is not None:
        return found
    if name in _ARCHIVERS:
        return _unpack(name, words)
    if name in _OUTPUT:
        written = _values_of(words, _OUTPUT[name])
        return Files(tuple(written), overwrites=True) if written else None
    if name in _EDITORS:
        return Files(tuple(word for word in words if word[:1] not in ("-", "+")), overwrites=True)
    if name in _PACKERS:
        only_reads = any(_is_short(word, "clt") or word in ("--stdout", "--list", "--test") for word in words)
        return (
            Files() if only_reads else Files(tuple(word for word in words if not word.startswith("-")), overwrites=True)
        )
    if name not in _ALL and name not in _LAST:
        return None
    if any(option in ("--help", "--version") for option in words):
        return Files()
    operands, options = _operands(words, _VALUES.get(name, frozenset()))
    if name == "mv" or name in _LAST:
        return _copy(name, words, operands, options, directory)
    if name == "gio" and operands[:1] not in (["trash"], ["remove"]):
        return Files()
    if name == "mktemp":
        operands = [word for word in operands if "/" in word]
    recursive = any(_is_short(option, "rR") or option.startswith("--rec") for option in options)
    whole = (recursive and name in ("rm", "srm")) or name.startswith("trash") or name == "gio"
    paths = tuple(operands)
    into = paths if recursive and not whole else ()
    return Files(paths, paths if whole else (), name not in _HARMLESS and bool(paths), into)


def plain(word: str) -> str:
    """A program's name without its folder and without the letter that GNU's has elsewhere (`gmv`)."""
    name = base(word)
    return name[1:] if name[:1] == "g" and name[1:] in (_ALL | _LAST | {"sed", "find", "tar", "dd", "awk"}) else name


def may_write(argv: Sequence[str]) -> bool:
    """Whether a program may change files that its command line does not name."""
    name, words = plain(argv[0]), argv[1:]
    if any(word in ("--version", "--help", "-V") for word in words[:1]):
        return False
    if name in _AWKS:
        return any(_AWK_WRITES.search(word) for word in words)
    if name == "sed":
        return any(_SED_WRITES.search(word) for word in words if not word.startswith("-") or word.startswith("-e"))
    if name == "find":
        return any(word in ("-fprint", "-fprintf", "-fls", "-delete") for word in words)
    return name not in _READS


def links(argv: Sequence[str], directory: str) -> dict[str, str]:
    """The links that `ln` makes, and their targets, as absolute paths."""
    words = list(argv[1:])
    operands, options = _operands(words, _VALUES["ln"])
    paths = [path for path in _copy("ln", words, operands, options, directory).paths if known(path)]
    symbolic = is_symbolic(argv)
    made = {}
    for path, source in zip(paths, operands, strict=False):
        link = os.path.normpath(os.path.join(directory, path))
        if known(source):
            made[link] = os.path.normpath(os.path.join(os.path.dirname(link) if symbolic else directory, source))
    return made


def is_symbolic(argv: Sequence[str]) -> bool:
    """Whether `ln` makes symbolic links."""
    return any(_is_short(option, "s") or option == "--symbolic" for option in argv[1:])


_PATH = re.compile(r"(?:\.\.?/|/|~/)[^\s'\"`;:,()\[\]{}<>|&*?\x00]+")


def mentioned_paths(argv: Sequence[str]) -> list[str]:
    """The words, and parts of words, of an unknown program that look like a path."""
    return [os.path.expanduser(found) for word in argv for found in _PATH.findall(word)]


def deletes(argv: Sequence[str]) -> bool:
    """Whether a program deletes, or empties, the files that it is given."""
    return plain(argv[0]) in _DELETING


def _copy(name: str, words: Sequence[str], operands: list[str], options: list[str], directory: str) -> Files:
    """`cp`, `mv`, `ln`, `install`, `rsync`: the last operand is written to, or something in it."""
    given = [option.partition("=")[2] for option in options if option.startswith("--target-directory=")]
    given += [words[n + 1] for n, word in enumerate(words[:-1]) if word in ("-t", "--target-directory")]
    sources = operands if given else operands[:-1]
    last = given or operands[-1:]
    if name == "ln" and not sources and last:
        sources, last = last, ["."]
    if name == "install" and any(_is_short(option, "d") or option == "--directory" for option in options):
        return Files(tuple(operands))
    if name in ("rsync", "scp") and last and re.match(r"[^/]*:", last[0]):
        last = []  # another machine
    paths, into = [], []
    for target in last:
        is_folder = known(target) and os.path.isdir(os.path.join(directory, target))
        for source in sources:
            inside = os.path.join(target, os.path.basename(source.rstrip("/")))
            if not is_folder:
                paths.append(target)
            elif not known(source) or source.rstrip("/").endswith(".") or (name == "rsync" and source.endswith("/")):
                into.append(target)
            elif os.path.isdir(os.path.join(directory, inside)) and name != "ln":
                into.append(inside)
            else:
                paths.append(inside)
        paths += [target] if not sources else []
    removed = tuple(sources) if name == "mv" else ()
    if name == "rsync":
        emptied = tuple(last) if any(option.startswith("--del") for option in options) else ()
        removed = tuple(sources) if "--remove-source-files" in options else ()
        return Files((*paths, *removed), emptied, bool(last), tuple(into))
    found = tuple(dict.fromkeys((*paths, *removed)))
    return Files(found, removed, name != "link" and bool(found or into), tuple(dict.fromkeys(into)))


def _is_short(option: str, letters: str) -> bool:
    """Whether a cluster of short options has one of `letters`."""
    return option.startswith("-") and not option.startswith("--") and bool(set(option) & set(letters))


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


def _in_place(name: str, words: Sequence[str]) -> Files | None:
    """`sed -i`: its files; of `-i.bak SCRIPT FILE…` the script counts as one more, which does not exist."""
    letter = _IN_PLACE[name]
    on = any(w.startswith("--in-place") or w == "-iinplace" for w in words) or (
        letter and any(w.startswith("-") and not w.startswith("--") and letter in w[1:] for w in words)
    )
    if not (on or name == "sd"):
        return None
    return Files(tuple(word for word in words if not word.startswith("-")), overwrites=True)


def _unpack(name: str, words: Sequence[str]) -> Files | None:
    """Where an archive is unpacked, or a patch applied; None if that is not named."""
    if name == "patch":
        folders = _values_of(words, ("-d", "--directory"))
        operands, options = _operands(words, frozenset({"-i", "--input", "-p", "-d", "--directory", "-o", "-r", "-B"}))
        if "--dry-run" in options:
            return Files()
        written = _values_of(words, ("-o", "--output"))
        return Files((*operands[:1], *written), overwrites=True, into=tuple(folders or ["."]))
    if name in ("tar", "bsdtar"):
        mode = next((w for w in words if not w.startswith("--")), "").lstrip("-")
        long = [word for word in words if word.startswith("--")]
        folders = _values_of(words, ("-C", "--directory"))
        if "t" in mode and "x" not in mode:
            return Files()
        if "x" in mode or "--extract" in long or "--get" in long:
            return Files(overwrites=True, into=tuple(folders or ["."]))
        archives = _values_of(words, ("-f", "--file")) or (words[1:2] if "f" in mode else [])
        if any(word.startswith("--remove") for word in long):
            # The packed files are deleted; `-C` says in which folder.
            packed = [word for word in words[1:] if not word.startswith("-") and word not in (*archives, *folders)]
            places = [os.path.join(folder, word) for folder in (folders or ["."]) for word in packed]
            return Files((*archives, *places), tuple(places), True)
        return Files(tuple(archives), overwrites=True)
    if name == "unzip":
        if any(_is_short(word, "lptzZ") for word in words):
            return Files()
        return Files(overwrites=True, into=tuple(_values_of(words, ("-d",)) or ["."]))
    if name in ("7z", "7za"):
        return None if words[:1] not in (["l"], ["t"]) else Files()
    return Files(overwrites=True, into=tuple(_values_of(words, ("-D", "--directory")) or ["."]))


def _values_of(words: Sequence[str], options: Sequence[str]) -> list[str]:
    """The values of some options, in the next word or joined to them."""
    found = [words[n + 1] for n, word in enumerate(words[:-1]) if word in options]
    for option in options:
        start = option + "=" if option.startswith("--") else option
        found += [word[len(start) :] for word in words if word.startswith(start) and word != option]
    return found


def _find(words: Sequence[str]) -> Files | None:
    """`find ROOT… -delete`, or `-exec rm`; a search for certain names deletes in a git directory what has such a name
    there."""
    first = next((n for n, word in enumerate(words) if word[:1] in ("-", "(", "!")), len(words))
    roots = tuple(words[:first]) or (".",)
    own, commands = _without_commands(words)
    written = tuple(own[n + 1] for n, w in enumerate(own[:-1]) if w in ("-fprint", "-fprint0", "-fls", "-fprintf"))
    removes = any(each and deletes(each) for each in commands)
    edits = any(each and (done := files_written_by(each)) is not None and done.overwrites for each in commands)
    if "-delete" not in own and not removes and not edits:
        return Files(written, overwrites=bool(written)) if written else None
    tests = [own[n + 1] for n, word in enumerate(own[:-1]) if word in ("-name", "-iname", "-path", "-wholename")]
    harmless = [test for test in tests if not names_a_git_directory(test)]
    negated = {"!", "-not", "-o", "-or", ","} & set(own)
    spared = any(".git" in test for test in tests) and bool({"-not", "!", "-prune"} & set(own))
    whole = not (harmless or spared or "-empty" in own)
    names = [own[n + 1] for n, word in enumerate(own[:-1]) if word in ("-name", "-iname")]
    looked_for = () if negated else tuple(names)
    if "-delete" not in own and not removes:
        return Files(written, (), True, roots, looked_for, True)
    return Files((*written, *roots), roots if whole else (), True, roots, looked_for, True)


def _without_commands(words: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """The words of a `find` that are its own, and the commands that it runs."""
    own: list[str] = []
    commands: list[list[str]] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        own.append(word)
        if word in ("-exec", "-execdir", "-ok", "-okdir"):
            end = next((n for n, each in enumerate(rest) if each in (";", "+")), len(rest))
            commands.append(rest[:end])
            rest = rest[end + 1 :]
    return own, commands


# -- git directories ---------------------------------------------------------------------------------------------------


def git_directories(directory: str) -> tuple[str, ...]:
    """The `.git` of the worktree that `directory` is in, its git directory, and the common one."""
    current = directory
    while True:
        dot = os.path.join(current, ".git")
        if os.path.lexists(dot):
            break
        if os.path.dirname(current) == current:
            return ()
        current = os.path.dirname(current)
    found = [dot]
    if os.path.isfile(dot):
        own = gitfile.resolve(dot)
        if own is not None:
            found += [own, gitfile.common_dir(own)]
    else:
        found.append(os.path.realpath(dot))
    return tuple(dict.fromkeys(found))


def first_line(path: str) -> str:
    """The first line of a file, empty if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.readline().rstrip("\n")
    except OSError:
        return ""


def in_git_directory(files: Files, directory: str, own: Iterable[str]) -> str | None:
    """The first path of `files` that is, is in, or contains a git directory; None if there is none. `own` are those of
    the worktree in which the program runs."""
    own = tuple(own)
    deleted_trees = frozenset(files.deleted_trees)
    for word in dict.fromkeys((*files.paths, *files.deleted_trees, *files.into)):
        for path in named(word, directory):
            if ".git" in path.split(os.sep):
                return word
            real = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
            for git_dir in own:
                if is_below(path, git_dir) or is_below(real, git_dir) or is_below(os.path.realpath(path), git_dir):
                    return word
                if word in deleted_trees and (is_below(git_dir, path) or is_below(git_dir, real)):
                    return word
    return None


def exists(files: Files, directory: str) -> bool:
    """Whether there is anything to lose: one of the files exists, or it is not known which they are."""
    return any(
        not known(word) or any(os.path.lexists(path) and not is_device(path) for path in named(word, directory))
        for word in (*files.paths, *files.deleted_trees, *files.into)
    )


def is_called(path: bytes, names: Sequence[str]) -> bool:
    """Whether a file, or a folder that it is in, has one of these names."""
    parts = os.fsdecode(path).split("/")
    return not names or any(fnmatch.fnmatch(part, name) for part in parts for name in names)


def named(word: str, directory: str) -> list[str]:
    """The paths that a word means."""
    if not known(word):
        # Only the known parts count: $X/.git is a git directory, $X/build is not, .git/$X is.
        before, after = word.partition(UNKNOWN)[0].rpartition("/"), word.rpartition(UNKNOWN)[2].partition("/")
        found = [os.path.normpath("/" + after[2])] if after[1] else []
        return [*found, os.path.normpath(os.path.join(directory, before[0] or "/"))] if before[1] else found
    path = os.path.join(directory, word)
    names = glob.glob(path) if glob.has_magic(word) else []
    return [os.path.normpath(name) for name in (names or [path])]
