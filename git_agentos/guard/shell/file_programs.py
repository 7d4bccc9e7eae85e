"""What programs do to files: which they write to or delete, and what they print, as far as their command line says.

Named targets decide whether a command may run, and which ignored files are saved first. A program that may change other
files (`may_write`) is preceded by a checkpoint in any case. Words are taken as the shell passes them; `*` is expanded.
"""

from __future__ import annotations

import fnmatch
import glob
import os
import re
from collections.abc import Collection, Mapping, Sequence

from git_agentos.errors import AgentosError
from git_agentos.git import gitfile, refs
from git_agentos.git.location import Location
from git_agentos.guard.call import UNKNOWN
from git_agentos.guard.paths import is_below, is_device, is_in_git_directory
from git_agentos.guard.shell.interpreters import AWK
from git_agentos.guard.shell.reader import Program
from git_agentos.guard.shell.runners import base, find_line, names_a_git_directory
from git_agentos.guard.shell.words import FILE, known, split_options, values_of
from git_agentos.util.named_tuple import NamedTuple

_ALL = frozenset(
    "rm rmdir unlink shred srm trash trash-put gio truncate touch mkdir chmod chown chgrp chattr setfacl tee sponge "
    "mv mkfifo mknod mktemp rename".split()
)
_LAST = frozenset("cp install ginstall ln rsync scp link".split())
_IN_PLACE = frozenset({"sed", "perl", "ruby", "sd", "gawk"})
_TARGET = frozenset({"-t", "--target-directory", "-S", "--suffix"})
# Options that take a value.
_VALUES: Mapping[str, Collection[str]] = {
    "cp": _TARGET, "mv": _TARGET, "ln": _TARGET,
    "install": {*_TARGET, "-m", "-o", "-g", "--mode", "--owner", "--group"},
    "truncate": {"-s", "--size", "-r", "--reference"}, "touch": {"-d", "-t", "-r", "--date"},
    **dict.fromkeys(("mkdir", "mkfifo", "mknod"), ("-m", "--mode")),
    "rsync": {"-e", "--rsh", "--exclude", "--include", "--filter", "-f", "--files-from"},
    "shred": {"-n", "-s", "--iterations", "--size"}, "mktemp": {"-p", "--suffix"},
    "patch": {"-d", "--directory", "-o", "--output", "-i", "--input", "-p", "-r", "-B"},
    **dict.fromkeys(("tar", "bsdtar"), ("-C", "--directory", "-f", "--file")),
    "unzip": {"-d"}, "cpio": {"-D", "--directory"},
}  # fmt: skip
_FOLDERS = ("-C", "-d", "-D", "--directory")
# Programs that write to what these options name.
_OUTPUT: Mapping[str, tuple[str, ...]] = {
    "curl": ("-o", "--output", "--output-dir"), "wget": ("-O", "-P", "--output-document", "--directory-prefix"),
    "sort": ("-o", "--output"), "gcc": ("-o",), "cc": ("-o",), "openssl": ("-out",), "yq": (), "jq": (),
}  # fmt: skip
_EDITORS = frozenset("ed ex vi vim nvim nano micro emacs".split())
_PACKERS = frozenset("gzip gunzip bzip2 bunzip2 xz unxz lzma unlzma zstd unzstd compress uncompress pigz".split())
_HARMLESS = frozenset("touch mkdir chmod chown chgrp chattr setfacl link rmdir mkfifo mknod mktemp".split())
_ARCHIVERS = frozenset({"tar", "bsdtar", "unzip", "7z", "7za", "cpio", "patch", "bsdcpio"})
# With these options a program only reads.
_ONLY_READS: Mapping[str, Collection[str]] = {
    **dict.fromkeys(_PACKERS, ("-c", "-l", "-t", "--stdout", "--list", "--test")),
    "unzip": {"-l", "-p", "-t", "-z", "-Z"}, "patch": {"--dry-run"},
}  # fmt: skip
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
    if name in ("tar", "bsdtar") and words[:1] and not words[0].startswith("-"):
        words[0] = "-" + words[0]
    operands, given = split_options(words, _OUTPUT.get(name) or _VALUES.get(name, ()), permute=True)
    if name in _IN_PLACE and (name == "sd" or "-i" in given or any(each.startswith("--in-place") for each in given)):
        # Of `sed -i SCRIPT FILE…` the script counts as one more, which does not exist.
        return Files(tuple(operands), overwrites=True)
    if name in _OUTPUT:
        written = [word for word in values_of(given, *_OUTPUT[name]) if word != "-"]
        return Files(tuple(written), overwrites=True) if written else None
    if name in _EDITORS:
        return Files(tuple(word for word in operands if word[:1] != "+"), overwrites=True)
    if not given.keys().isdisjoint(_ONLY_READS.get(name, ())):
        return Files()
    if name in _PACKERS:
        return Files(tuple(operands), overwrites=True)
    if name in _ARCHIVERS:
        return _unpack(name, operands, given)
    if name not in _ALL and name not in _LAST:
        return None
    if "--help" in given or "--version" in given or (name == "gio" and operands[:1] not in (["trash"], ["remove"])):
        return Files()
    if name == "mv" or name in _LAST:
        return _copy(name, operands, given, directory)
    if name == "mktemp":
        operands = [word for word in operands if "/" in word]
    recursive = any(each in ("-r", "-R") or each.startswith("--rec") for each in given)
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
    if name in AWK:
        return any(_AWK_WRITES.search(word) for word in words)
    if name == "sed":
        return any(_SED_WRITES.search(word) for word in words if not word.startswith("-") or word.startswith("-e"))
    if name == "find":
        return any(word in ("-fprint", "-fprintf", "-fls", "-delete") for word in words)
    return name not in _READS


def links(argv: Sequence[str], directory: str) -> dict[str, str]:
    """The links that `ln` makes, and their targets, as absolute paths."""
    operands, given = split_options(argv[1:], _VALUES["ln"], permute=True)
    paths = [path for path in _copy("ln", operands, given, directory).paths if known(path)]
    symbolic = is_symbolic(argv)
    made = {}
    for path, source in zip(paths, operands, strict=False):
        link = os.path.normpath(os.path.join(directory, path))
        if known(source):
            made[link] = os.path.normpath(os.path.join(os.path.dirname(link) if symbolic else directory, source))
    return made


def is_symbolic(argv: Sequence[str]) -> bool:
    """Whether `ln` makes symbolic links."""
    _, given = split_options(argv[1:], _VALUES["ln"], permute=True)
    return "-s" in given or "--symbolic" in given


_PATH = re.compile(r"(?:\.\.?/|/|~/)[^\s'\"`;:,()\[\]{}<>|&*?\x00]+")


def mentioned_paths(argv: Sequence[str]) -> list[str]:
    """The words, and parts of words, of an unknown program that look like a path."""
    return [os.path.expanduser(found) for word in argv for found in _PATH.findall(word)]


def deletes(argv: Sequence[str]) -> bool:
    """Whether a program deletes, or empties, the files that it is given."""
    return plain(argv[0]) in _DELETING


def _copy(name: str, operands: list[str], given: Mapping[str, Sequence[str]], directory: str) -> Files:
    """`cp`, `mv`, `ln`, `install`, `rsync`: the last operand is written to, or something in it."""
    targets = values_of(given, "-t", "--target-directory") if name in ("cp", "mv", "ln", "install") else []
    sources, last = (operands, targets) if targets else (operands[:-1], operands[-1:])
    if name == "ln" and not sources and last:
        sources, last = last, ["."]
    if name == "install" and ("-d" in given or "--directory" in given):
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
        emptied = tuple(last) if any(option.startswith("--del") for option in given) else ()
        removed = tuple(sources) if "--remove-source-files" in given else ()
        return Files((*paths, *removed), emptied, bool(last), tuple(into))
    found = tuple(dict.fromkeys((*paths, *removed)))
    return Files(found, removed, name != "link" and bool(found or into), tuple(dict.fromkeys(into)))


def _unpack(name: str, operands: list[str], given: Mapping[str, Sequence[str]]) -> Files | None:
    """Where an archive is unpacked, or a patch applied; None if that is not named."""
    folders = values_of(given, *_FOLDERS)
    if name == "patch":
        written = values_of(given, "-o", "--output")
        return Files((*operands[:1], *written), overwrites=True, into=tuple(folders or ["."]))
    if name in ("7z", "7za"):
        return None if operands[:1] not in (["l"], ["t"]) else Files()
    if name in ("tar", "bsdtar") and given.keys().isdisjoint({"-x", "--extract", "--get"}):
        if "-t" in given:
            return Files()
        archives = values_of(given, "-f", "--file")
        # With `--remove-files`, the packed files are deleted; `-C` says in which folder.
        removes = any(each.startswith("--remove") for each in given)
        packed = [os.path.join(folder, word) for folder in (folders or ["."]) for word in operands if removes]
        return Files((*archives, *packed), tuple(packed), overwrites=True)
    return Files(overwrites=True, into=tuple(folders or ["."]))


def _find(words: Sequence[str]) -> Files | None:
    """`find ROOT… -delete`, or `-exec rm`; a search for certain names deletes in a git directory what has such a name
    there."""
    line = find_line(words)
    own = line.words
    written = tuple(own[n + 1] for n, w in enumerate(own[:-1]) if w in ("-fprint", "-fprint0", "-fls", "-fprintf"))
    removes = "-delete" in own or any(each and deletes(each) for each in line.commands)
    edits = any(each and (done := files_written_by(each)) is not None and done.overwrites for each in line.commands)
    if not removes and not edits:
        return Files(written, overwrites=bool(written)) if written else None
    names = () if line.is_negated else tuple(name for test, name in line.tests if test in ("-name", "-iname"))
    if not removes:
        return Files(written, (), True, line.roots, names, True)
    spared = any(".git" in name for _, name in line.tests) and not {"-not", "!", "-prune"}.isdisjoint(own)
    whole = all(names_a_git_directory(name) for _, name in line.tests) and not spared and "-empty" not in own
    return Files((*written, *line.roots), line.roots if whole else (), True, line.roots, names, True)


# -- git directories ---------------------------------------------------------------------------------------------------


def in_git_directory(files: Files, directory: str, own: Sequence[str]) -> str | None:
    """The first path of `files` that is, is in, or contains a git directory; None if there is none. `own` are those of
    the worktree in which the program runs."""
    for word in dict.fromkeys((*files.paths, *files.deleted_trees, *files.into)):
        for path in named(word, directory):
            real = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
            contains = any(is_below(git_dir, each) for git_dir in own for each in (path, real))
            if is_in_git_directory(path, own) or (contains and word in files.deleted_trees):
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


# -- output: the next command is often given it ------------------------------------------------------------------------

_CURRENT_BRANCH = (
    ["branch", "--show-current"],
    ["rev-parse", "--abbrev-ref", "HEAD"],
    ["symbolic-ref", "--short", "HEAD"],
)
_BRANCHES = "refs/heads/"


def printed_by(name: str, program: Program) -> str:
    """What a harmless program prints."""
    operands = [word for word in program.argv[1:] if not word.startswith("-")]
    if name in ("cat", "tee"):
        return (program.stdin or "") if not operands or name == "tee" else FILE
    if name in ("which", "whence", "type") and len(operands) == 1:
        return operands[0] + "\n"
    if name in ("dirname", "basename") and operands and known(operands[0]):
        return (os.path.dirname(operands[0]) or "." if name == "dirname" else os.path.basename(operands[0])) + "\n"
    return UNKNOWN


def printed_by_git(program: Program) -> str:
    """What git prints about the place where it runs."""
    words = list(program.argv[1:])
    is_given = any(key in program.environment for key in ("GIT_DIR", "GIT_WORK_TREE"))
    found = None if program.cwd_unknown or is_given else gitfile.find(program.directory)
    if found is None or not words:
        return UNKNOWN
    root, git_dir = found
    if words == ["rev-parse", "--show-toplevel"]:
        return root + "\n"
    if words in (["rev-parse", "--git-dir"], ["rev-parse", "--absolute-git-dir"]):
        return git_dir + "\n"
    if words == ["rev-parse", "--git-common-dir"]:
        return gitfile.common_dir(git_dir) + "\n"
    if words in _CURRENT_BRANCH:
        try:
            ref = refs.read_head(Location.read(root, git_dir, gitfile.common_dir(git_dir))).ref or ""
        except AgentosError:
            return UNKNOWN
        return ref.removeprefix(_BRANCHES) + "\n" if ref.startswith(_BRANCHES) else UNKNOWN
    return UNKNOWN
