"""Programs that run other programs: the commands of `sudo`, `env`, `xargs`, `bash -c`, `find -exec` …

It is a table, not a guess: for each program in it, the options that take a value are known, so the command behind them
is found. If a program has too many options to list (`docker run`), the command is looked for among its words.
"""

from __future__ import annotations

import fnmatch
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from itertools import islice, pairwise, product

from git_agentos.guard.call import UNKNOWN
from git_agentos.guard.shell.words import ansi, known, split_options, values_of
from git_agentos.util.named_tuple import NamedTuple


class RunCommand(NamedTuple):
    """A command that a program runs: `argv`, or shell `text` with `name` (`$0`) and `positional` (`$1` …); with
    `reads`, the text on its input. `environment` has the variables that are changed (None: unset); with `cleared`, all
    others are removed. `directory` is where it changes to first. `guessed`: which program it is, is a guess. `script`
    is a file that it runs, read only if the same text has written it."""

    argv: tuple[str, ...] = ()
    text: str | None = None
    name: str | None = None
    positional: tuple[str, ...] = ()
    reads: bool = False
    environment: Mapping[str, str | None] = {}
    cleared: bool = False
    directory: str | None = None
    guessed: bool = False
    script: str | None = None


SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "yash", "fish", "rbash", "posh"})
_SHELL_TEXTS = ("--command", "--init-command", "-C")
_SHELL_VALUES = ("-o", "-O", "--rcfile", "--init-file", "--command", "--init-command")

# Programs whose options take no value: what follows these is the command.
_PLAIN_WRAPPERS = frozenset(
    """nohup setsid command builtin unbuffer valgrind catchsegv dbus-run-session winpty chronic ts linux64 torsocks
    firejail busybox toybox entr""".split()
)
# Options that take a value, and how many words stand before the command.
_WRAPPERS: Mapping[str, tuple[str, int]] = {
    **dict.fromkeys(_PLAIN_WRAPPERS, ("", 0)),
    **dict.fromkeys(("taskset", "setarch", "repeat"), ("", 1)),
    **dict.fromkeys(("timeout", "gtimeout"), ("-s -k --signal --kill-after", 1)),
    **dict.fromkeys(("time", "gtime"), ("-f -o --format --output", 0)),
    "sudo": ("-u -g -h -p -C -r -t -T -U -R --user --group --host --prompt --close-from --role --type --chroot", 0),
    "doas": ("-u -C", 0),
    "nice": ("-n --adjustment", 0),
    "ionice": ("-c -n -p -P -u --class --classdata", 0),
    "chrt": ("-T -P -D", 1),
    "stdbuf": ("-i -o -e --input --output --error", 0),
    "exec": ("-a", 0),
    "strace": ("-e -o -p -s -u -E -a -b -I -O -S -P -X", 0),
    "ltrace": ("-e -o -p -s -u -n -a", 0),
    "caffeinate": ("-t -w", 0),
    "xvfb-run": ("-n -s -e -f -p -w", 0),
    "rlwrap": ("-f -H -p", 0),
    "faketime": ("-f", 1),
    "fakeroot": ("-l -s -i -b", 0),
    "chroot": ("--userspec --groups", 1),
    "proxychains": ("-f", 0),
    "pkexec": ("--user", 0),
    "cpulimit": ("-l -p -e", 0),
    "aws-vault": ("", 2),
    "ssh-agent": ("-a -t", 0),
}

# Programs whose words are searched for a program that is known here.
_LOOSE = frozenset(
    """docker podman nerdctl kubectl nsenter unshare bwrap flatpak snap systemd-run lxc lxc-attach incus chpst direnv
    nix nix-shell poetry pipenv uv uvx npx bunx pnpm yarn npm bundle mise asdf conda mamba micromamba hatch tox nox rye
    pdm pixi
    hyperfine rush gdb perf ssh mosh autossh sshpass distrobox toolbox devcontainer vagrant dotenv doppler op
    infisical chamber envchain with-env cross-env env-cmd watchexec reflex nodemon concurrently mprocs foreman honcho
    script scriptreplay tmux screen dtach abduco zellij at batch runuser runcon su sg newgrp expect""".split()
)
_TEXT_OPTIONS = {"su": "-c --command", "runuser": "-c --command", "script": "-c --command", "flock": "-c --command",
                 "nix-shell": "--run --command", "sg": "-c", "watch": "", "entr": ""}  # fmt: skip

# The name of a git directory, and the names at its top: `find` may find it by these.
_INSIDE = (
    ".git", "HEAD", "config", "index", "objects", "refs", "packed-refs", "hooks", "logs", "ORIG_HEAD", "worktrees",
)  # fmt: skip
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=", re.ASCII)
_TAKE_TEXT = frozenset(
    "hyperfine rush tmux screen zellij concurrently mprocs watchexec reflex nodemon entr foreman at".split()
)
_OWN_LANGUAGE = frozenset({"gdb", "expect"})
_MANAGERS = frozenset({"npm", "pnpm", "yarn"})
_GIT = re.compile(r"(?<![\w@.-])(?:[\w./]*/)?git(?=\s)")
_REMOTE = frozenset({"ssh", "mosh", "autossh"})


def base(word: str) -> str:
    """A program's name without its folder; unknown parts of the folder do not matter."""
    name = word.rpartition("/")[2]
    return name.removesuffix(".exe")


def commands_run_by(argv: Sequence[str], stdin: str | None) -> list[RunCommand]:
    """The commands that `argv` runs; empty if it is not a program that runs others."""
    name = base(argv[0])
    if name in SHELLS:
        return _shell(argv)
    special = _SPECIAL.get(name)
    if special is not None:
        return special(list(argv), stdin)
    if name in _TEXT_OPTIONS:
        found = _texts(argv, name)
        if found:
            return found
    if name in _WRAPPERS:
        options, positional = _WRAPPERS[name]
        return _behind(split_options(argv[1:], options.split())[0], positional, name)
    if name in _LOOSE:
        return _somewhere(argv, name, stdin)
    return []


# -- command lines -----------------------------------------------------------------------------------------------------


def _behind(words: list[str], positional: int, name: str) -> list[RunCommand]:
    words = words[positional:]
    environment: dict[str, str | None] = {}
    while words and _ASSIGNMENT.match(words[0]) and name in ("sudo", "doas", "env"):
        key, _, value = words.pop(0).partition("=")
        environment[key] = value
    return [RunCommand(tuple(words), environment=environment)] if words else []


def without_prefix(argv: list[str]) -> list[str]:
    """The command behind `command`, `exec`, `time` and the like; empty if these only ask."""
    options, _ = _WRAPPERS.get(argv[0], ("", 0))
    rest, given = split_options(argv[1:], options.split())
    return [] if argv[0] == "command" and ("-v" in given or "-V" in given) else rest


def _somewhere(argv: Sequence[str], name: str, stdin: str | None) -> list[RunCommand]:
    """The first word that is a program known here, and all behind it."""
    if name in _REMOTE:
        rest = " ".join(argv[1:])
        at = _GIT.search(rest)
        found = [RunCommand(text=rest[at.start() :], guessed=True)] if at else []
        return [*found, RunCommand(reads=True, guessed=True)] if stdin is not None and _GIT.search(stdin) else found
    if name in ("at", "batch") and stdin is not None:
        return [RunCommand(reads=True)]
    if name in _MANAGERS and (len(argv) < 2 or argv[1] not in ("exec", "x", "dlx")):
        return []
    for n, word in enumerate(argv[1:], 1):
        inner = base(word)
        if inner == "git" or inner in SHELLS or inner in ("env", "xargs"):
            return [RunCommand(tuple(argv[n:]), guessed=True)]
        if (name in _TAKE_TEXT or argv[n - 1] in ("-c", "--call", "--command", "--exec", "-x")) and " " in word:
            return [RunCommand(text=word, guessed=True)]
        if name in _OWN_LANGUAGE and (at := _GIT.search(word)):
            return [RunCommand(text=word[at.start() :], guessed=True)]
    return []


def _texts(argv: Sequence[str], name: str) -> list[RunCommand]:
    """The shell text that an option holds (`su -c TEXT`), or that the words make (`watch`)."""
    options = _TEXT_OPTIONS[name].split()
    texts = values_of(split_options(argv[1:], options, permute=True)[1], *options)
    if texts:
        return [RunCommand(text=text) for text in texts]
    if name == "watch":
        return [RunCommand(text=" ".join(split_options(argv[1:], ("-n", "--interval", "-q", "--equexit"))[0]))]
    if name == "flock":
        command, _ = split_options(argv[1:], ("-w", "-E", "--timeout", "--conflict-exit-code"))
        return [RunCommand(tuple(command[1:]))]
    return []


def _shell(argv: Sequence[str]) -> list[RunCommand]:
    """`bash -c TEXT NAME ARG…`, `bash -s ARG…`, `bash FILE`, and the input if no file is named."""
    valued = [*_SHELL_VALUES, "-C"] if base(argv[0]) == "fish" else _SHELL_VALUES
    words, given = split_options(["-" + word[1:] if word[:1] == "+" else word for word in argv[1:]], valued)
    words = words[1:] if words[:1] == ["-"] else words
    found = [RunCommand(text=text, positional=tuple(words)) for text in values_of(given, *_SHELL_TEXTS)]
    if "-c" in given:
        name = words[1] if len(words) > 1 else argv[0]
        return [*found, RunCommand(text=words[0] if words else "", name=name, positional=tuple(words[2:]))]
    if found or "--help" in given or "--version" in given:
        return found
    if words and "-s" not in given:
        if words[0].startswith("/dev/fd/") and not known(words[0]):
            return [RunCommand(text=words[0], positional=tuple(words[1:]), reads=True)]
        if words[0] not in ("/dev/stdin", "/dev/fd/0"):
            return [RunCommand(script=words[0], positional=tuple(words[1:]))]
        words.pop(0)
    return [RunCommand(positional=tuple(words), reads=True)]


def _env(argv: list[str], stdin: str | None) -> list[RunCommand]:  # noqa: ARG001 (one form for all)
    words, given = split_options(argv[1:], ("-u", "--unset", "-C", "--chdir", "-S", "--split-string"))
    cleared = "-i" in given or "--ignore-environment" in given or words[:1] == ["-"]
    words = words[1:] if words[:1] == ["-"] else words
    words = [word for text in values_of(given, "-S", "--split-string") for word in _split(text)] + words
    environment: dict[str, str | None] = dict.fromkeys(values_of(given, "-u", "--unset"))
    while words and (_ASSIGNMENT.match(words[0]) or ("=" in words[0] and known(words[0].partition("=")[0]))):
        key, _, value = words.pop(0).partition("=")
        environment[key] = value
    if not words:
        return []
    directory = next(iter(values_of(given, "-C", "--chdir")), None)
    return [RunCommand(tuple(words), environment=environment, cleared=cleared, directory=directory)]


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return [UNKNOWN]


_XARGS_VALUES = (
    "-a -E -I -L -n -P -s -d -J -R -S --arg-file --delimiter --max-args --max-procs --max-chars --process-slot-var"
).split()
_XARGS_JOINED = "-i -e -l --replace --eof --max-lines".split()
_MOST_ITEMS = 50


def _xargs(argv: list[str], stdin: str | None) -> list[RunCommand]:
    """The command lines that xargs makes of a command and what it reads."""
    command, given = split_options(argv[1:], _XARGS_VALUES, _XARGS_JOINED)
    if not command:
        return []
    lines = items = [UNKNOWN]
    if stdin is not None and known(stdin) and not values_of(given, "-a", "--arg-file"):
        delimiters = values_of(given, "-d", "--delimiter")
        lines = [line for line in stdin.split(ansi(delimiters[-1]) if delimiters else "\n") if line.strip()]
        items = lines if delimiters else _split(stdin)
    if len(lines) > _MOST_ITEMS:
        lines = items = [UNKNOWN]
    places = values_of(given, "-I", "-J", "-i", "--replace")
    if places:
        place = places[-1] or "{}"
        return [RunCommand(tuple(word.replace(place, line.strip()) for word in command)) for line in lines]
    groups = [items]
    sizes = [int(size) for size in values_of(given, "-n", "--max-args") if size.isdigit() and int(size)]
    if values_of(given, "-L", "-l", "--max-lines"):
        groups = [_split(line) for line in lines]
    elif sizes:
        groups = [items[n : n + sizes[-1]] for n in range(0, len(items), sizes[-1])]
    return [RunCommand((*command, *group)) for group in groups]


_PARALLEL_VALUES = frozenset(
    """-j -P -S -n -N -L -I -C -d -E -a -s --jobs --max-procs --sshlogin --sshloginfile --max-args --max-replace-args
    --max-lines --colsep --delimiter --arg-file --delay --joblog --results --timeout --retries --tmpdir --workdir --wd
    --env --halt --halt-on-error --nice --load --memfree --tagstring --basefile --shuf --seqreplace --block --recstart
    --recend --profile --max-chars --plus --id --semaphorename --st --semaphoretimeout""".split()
)
_PLACE = re.compile(r"(\{\d*[./#%+]*\})")


def _parallel(argv: list[str], stdin: str | None) -> list[RunCommand]:
    """`parallel COMMAND ::: ITEM…`: the words are joined to one shell text, for each item."""
    words, _ = split_options(argv[1:], _PARALLEL_VALUES)
    marks = [n for n, word in enumerate(words) if word in (":::", ":::+", "::::", "::::+")]
    if not marks and stdin is not None and stdin.startswith(UNKNOWN) and not words:
        return [RunCommand(reads=True)]
    groups = [[UNKNOWN] if words[n].startswith("::::") else words[n + 1 : m] for n, m in pairwise([*marks, len(words)])]
    groups = groups or [stdin.splitlines() if stdin is not None and known(stdin) else [UNKNOWN]]
    chosen = list(islice(product(*groups), _MOST_ITEMS + 1))
    if len(chosen) > _MOST_ITEMS:
        chosen = [tuple(UNKNOWN for _ in groups)]
    text = " ".join(words[: marks[0]] if marks else words)
    made = []
    for items in chosen:
        # `{}` is the only item, `{2}` the second; `{.}` and the like are parts of one.
        value_of = {f"{{{n}}}": item for n, item in enumerate(items, 1)}
        value_of |= {"{}": items[0]} if len(items) == 1 else {}
        filled = "".join(value_of.get(part, UNKNOWN if _PLACE.fullmatch(part) else part) for part in _PLACE.split(text))
        made.append(RunCommand(text=filled if filled != text else " ".join((text, *items)).strip()))
    return made


_FIND_NAMES = frozenset({"-name", "-iname", "-path", "-wholename"})
_NEGATIONS = frozenset({"!", "-not", "-o", "-or", ","})


class FindLine(NamedTuple):
    """The command line of `find`: where it begins, its other `words`, the `tests` of names with their patterns, and the
    commands that it runs. `is_negated`: what is found may fail a test."""

    roots: tuple[str, ...]
    words: tuple[str, ...]
    tests: tuple[tuple[str, str], ...]
    commands: tuple[tuple[str, ...], ...]

    @property
    def is_negated(self) -> bool:
        return not _NEGATIONS.isdisjoint(self.words)


def find_line(words: Sequence[str]) -> FindLine:
    first = next((n for n, word in enumerate(words) if word[:1] in ("-", "(", "!")), len(words))
    own: list[str] = []
    commands: list[tuple[str, ...]] = []
    rest = list(words[first:])
    while rest:
        word = rest.pop(0)
        own.append(word)
        if word in ("-exec", "-execdir", "-ok", "-okdir"):
            end = next((n for n, each in enumerate(rest) if each in (";", "+")), len(rest))
            commands.append(tuple(rest[:end]))
            rest = rest[end + 1 :]
    tests = tuple((test, pattern) for test, pattern in pairwise(own) if test in _FIND_NAMES)
    return FindLine(tuple(words[:first]) or (".",), tuple(own), tests, tuple(commands))


def names_a_git_directory(test: str) -> bool:
    """Whether a name that `find` looks for may be a git directory, or something at the top of one."""
    return not known(test) or any(fnmatch.fnmatch(name, test.rpartition("/")[2]) for name in _INSIDE)


def _find(argv: list[str], stdin: str | None) -> list[RunCommand]:  # noqa: ARG001 (one form for all)
    line = find_line(argv[1:])
    found = f"{line.roots[0]}/{UNKNOWN}"
    inside = [name for _, name in line.tests if name.rpartition("/")[2] == ".git"]
    # Everything that is found has such a name, wherever it lies.
    named = [name for test, name in line.tests if test in ("-name", "-iname") and not names_a_git_directory(name)]
    if inside:
        found = inside[0]
    elif named and not line.is_negated:
        found = f"{UNKNOWN}/{named[0]}"
    return [RunCommand(tuple(each.replace("{}", found) for each in command)) for command in line.commands]


def _fd(argv: list[str], stdin: str | None) -> list[RunCommand]:  # noqa: ARG001 (one form for all)
    for n, word in enumerate(argv):
        if word in ("-x", "-X", "--exec", "--exec-batch"):
            rest = [re.sub(r"\{[./]*\}", "./" + UNKNOWN, each) for each in argv[n + 1 :]]
            return [RunCommand((*rest, *(() if rest != argv[n + 1 :] else ("./" + UNKNOWN,))))]
    return []


_SPECIAL: Mapping[str, Callable[[list[str], str | None], list[RunCommand]]] = {
    "env": _env, "genv": _env, "xargs": _xargs, "gxargs": _xargs, "find": _find, "gfind": _find, "fd": _fd,
    "fdfind": _fd, "parallel": _parallel, "sem": _parallel,
}  # fmt: skip
