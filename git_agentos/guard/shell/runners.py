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
from typing import NamedTuple

from git_agentos.guard.shell.words import UNKNOWN, ansi, known


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
_SHELL_VALUES = frozenset({"-o", "+o", "-O", "+O", "--rcfile", "--init-file", "-C", "--init-command"})

# Options that take a value, and how many words stand before the command.
_WRAPPERS: Mapping[str, tuple[str, int]] = {
    "sudo": ("-u -g -h -p -C -r -t -T -U -R --user --group --host --prompt --close-from --role --type --chroot", 0),
    "doas": ("-u -C", 0),
    "nohup": ("", 0),
    "setsid": ("", 0),
    "nice": ("-n --adjustment", 0),
    "ionice": ("-c -n -p -P -u --class --classdata", 0),
    "chrt": ("-T -P -D", 1),
    "taskset": ("", 1),
    "timeout": ("-s -k --signal --kill-after", 1),
    "gtimeout": ("-s -k --signal --kill-after", 1),
    "stdbuf": ("-i -o -e --input --output --error", 0),
    "time": ("-f -o --format --output", 0),
    "gtime": ("-f -o --format --output", 0),
    "exec": ("-a", 0),
    "command": ("", 0),
    "builtin": ("", 0),
    "unbuffer": ("", 0),
    "strace": ("-e -o -p -s -u -E -a -b -I -O -S -P -X", 0),
    "ltrace": ("-e -o -p -s -u -n -a", 0),
    "valgrind": ("", 0),
    "catchsegv": ("", 0),
    "caffeinate": ("-t -w", 0),
    "dbus-run-session": ("", 0),
    "xvfb-run": ("-n -s -e -f -p -w", 0),
    "rlwrap": ("-f -H -p", 0),
    "winpty": ("", 0),
    "chronic": ("", 0),
    "ts": ("", 0),
    "faketime": ("-f", 1),
    "fakeroot": ("-l -s -i -b", 0),
    "chroot": ("--userspec --groups", 1),
    "setarch": ("", 1),
    "repeat": ("", 1),
    "linux64": ("", 0),
    "proxychains": ("-f", 0),
    "torsocks": ("", 0),
    "firejail": ("", 0),
    "pkexec": ("--user", 0),
    "busybox": ("", 0),
    "toybox": ("", 0),
    "cpulimit": ("-l -p -e", 0),
    "entr": ("", 0),
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

_ENV_VALUED = frozenset({"-u", "--unset", "-C", "--chdir", "-S", "--split-string"})
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
        return _behind(_past(list(argv[1:]), frozenset(options.split())), positional, name)
    if name in _LOOSE:
        return _somewhere(argv, name, stdin)
    return []


# -- command lines -----------------------------------------------------------------------------------------------------


def _past(words: list[str], values: frozenset[str]) -> list[str]:
    """The words behind the options; `values` are those options that take one."""
    while words and words[0].startswith("-") and words[0] != "-":
        word = words.pop(0)
        if word == "--":
            break
        if word.startswith("--"):
            takes = word in values
        else:
            # A cluster ends at the first option that takes a value: the rest of the word, or the next word.
            takes = next((n == len(word) - 1 for n in range(1, len(word)) if f"-{word[n]}" in values), False)
        if takes and words:
            words.pop(0)
    return words


def _behind(words: list[str], positional: int, name: str) -> list[RunCommand]:
    words = words[positional:]
    environment: dict[str, str | None] = {}
    while words and _ASSIGNMENT.match(words[0]) and name in ("sudo", "doas", "env"):
        key, _, value = words.pop(0).partition("=")
        environment[key] = value
    return [RunCommand(tuple(words), environment=environment)] if words else []


def without_prefix(argv: list[str]) -> list[str]:
    """The command behind `command`, `exec`, `time` and the like; empty if these only ask."""
    name, rest = argv[0], argv[1:]
    while rest and rest[0].startswith("-") and rest[0] != "-":
        if rest[0] == "--":
            return rest[1:]
        if name == "command" and set(rest[0]) & set("vV"):
            return []
        rest = rest[2:] if (name == "exec" and rest[0].endswith("a")) or rest[0] in ("-f", "-o") else rest[1:]
    return rest


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
    for n, word in enumerate(argv):
        for option in options:
            ends = len(option) == 2 and re.fullmatch(f"-[a-zA-Z]*{option[1]}", word) is not None
            if (word == option or ends) and n + 1 < len(argv):
                return [RunCommand(text=argv[n + 1])]
            if word.startswith(option + "=") or (len(option) == 2 and word.startswith(option) and word != option):
                return [RunCommand(text=word[len(option) :].removeprefix("="))]
    if name == "watch":
        return [RunCommand(text=" ".join(_past(list(argv[1:]), frozenset({"-n", "--interval", "-q", "--equexit"}))))]
    if name == "flock":
        return [
            RunCommand(tuple(_past(list(argv[1:]), frozenset({"-w", "-E", "--timeout", "--conflict-exit-code"}))[1:]))
        ]
    return []


def _shell(argv: Sequence[str]) -> list[RunCommand]:
    """`bash -c TEXT NAME ARG…`, `bash -s ARG…`, `bash FILE`, and the input if no file is named."""
    words = list(argv[1:])
    takes_text = from_input = False
    while words and words[0][:1] in ("-", "+") and words[0] not in ("-", "--"):
        word = words.pop(0)
        if word.startswith("--command="):
            return [RunCommand(text=word.partition("=")[2], positional=tuple(words))]
        if word == "--command":
            takes_text = True
            break
        if word in _SHELL_VALUES and words:
            words.pop(0)
        elif not word.startswith("--"):
            takes_text = takes_text or "c" in word[1:]
            from_input = from_input or "s" in word[1:]
            if word[-1] in "oO" and word not in _SHELL_VALUES and words:
                words.pop(0)
        elif word in ("--help", "--version"):
            return []
    if words[:1] in (["--"], ["-"]):
        words.pop(0)
    if takes_text:
        name = words[1] if len(words) > 1 else argv[0]
        return [RunCommand(text=words[0] if words else "", name=name, positional=tuple(words[2:]))]
    if words and not from_input:
        if words[0].startswith("/dev/fd/") and not known(words[0]):
            return [RunCommand(text=words[0], positional=tuple(words[1:]), reads=True)]
        if words[0] not in ("/dev/stdin", "/dev/fd/0"):
            return [RunCommand(script=words[0], positional=tuple(words[1:]))]
        words.pop(0)
    return [RunCommand(positional=tuple(words), reads=True)]


def _env(argv: list[str], stdin: str | None) -> list[RunCommand]:  # noqa: ARG001 (one form for all)
    words = argv[1:]
    environment: dict[str, str | None] = {}
    cleared = False
    directory: str | None = None
    while words and words[0].startswith("-"):
        word = words.pop(0)
        if word == "--":
            break
        if word in ("-", "-i", "--ignore-environment"):
            cleared = True
            continue
        name, value = _env_option(word, words)
        if name in ("-u", "--unset"):
            environment[value] = None
        elif name in ("-C", "--chdir"):
            directory = value
        elif name in ("-S", "--split-string"):
            words = _split(value) + words
    while words and (_ASSIGNMENT.match(words[0]) or ("=" in words[0] and known(words[0].partition("=")[0]))):
        key, _, value = words.pop(0).partition("=")
        environment[key] = value
    if not words:
        return []
    return [RunCommand(tuple(words), environment=environment, cleared=cleared, directory=directory)]


def _env_option(word: str, words: list[str]) -> tuple[str, str]:
    """An option of `env` and its value, which is joined to it, or the next of `words`. What else is in a cluster goes
    back to `words`."""
    name, equals, value = word.partition("=")
    if equals and name.startswith("--"):
        return name, value
    if word in _ENV_VALUED:
        return (word, words.pop(0)) if words else ("", "")
    if word.startswith("--") or len(word) < 3:
        return "", ""
    if word[:2] in _ENV_VALUED:
        return word[:2], word[2:]
    words[:0] = [word[:2], "-" + word[2:]]
    return "", ""


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return [UNKNOWN]


# Options whose value is the next word or joined, and options whose value is joined or missing.
_XARGS_VALUES, _XARGS_JOINED = "aEILnPsdJRS", "iel"
_XARGS_LONG = ("--arg-file", "--delimiter", "--max-args", "--max-procs", "--max-chars", "--process-slot-var")
_MOST_ITEMS = 50


def _xargs(argv: list[str], stdin: str | None) -> list[RunCommand]:
    words = argv[1:]
    given: dict[str, str] = {}
    while words and words[0].startswith("-") and words[0] != "-":
        word = words.pop(0)
        if word == "--":
            break
        name, equals, value = word.partition("=")
        if word.startswith("--"):
            if len(name) > 3 and "--replace".startswith(name):
                given["I"] = value or "{}"
            elif name == "--null":
                given["0"] = ""
            for long in _XARGS_LONG:
                if len(name) > 2 and long.startswith(name):
                    given[{"--arg-file": "a", "--delimiter": "d", "--max-args": "n"}.get(long, "")] = (
                        value if equals else words.pop(0) if words else ""
                    )
                    break
            continue
        letters = word[1:]
        while letters:
            letter, letters = letters[0], letters[1:]
            if letter in _XARGS_VALUES:
                given["I" if letter in "IJ" else letter] = letters or (words.pop(0) if words else "")
                break
            if letter in _XARGS_JOINED:
                if letter == "i":
                    given["I"] = letters or "{}"
                elif letter == "l":
                    given["L"] = letters or "1"
                break
            given[letter] = ""
    if not words:
        return []
    return [RunCommand(argv) for argv in _with_items(words, given, stdin if "a" not in given else None)]


def _with_items(command: list[str], given: Mapping[str, str], read: str | None) -> list[tuple[str, ...]]:
    """The command lines that xargs makes of a command and what it reads."""
    if read is None or not known(read):
        if "I" in given:
            return [tuple(word.replace(given["I"], UNKNOWN) for word in command)]
        return [(*command, UNKNOWN)]
    lines = [line for line in read.splitlines() if line.strip()]
    if "d" in given:
        lines = [item for item in read.split(ansi(given["d"]) or "\n") if item.strip()]
    if len(lines) > _MOST_ITEMS:
        return _with_items(command, given, None)
    if "I" in given:
        return [tuple(word.replace(given["I"], line.strip()) for word in command) for line in lines]
    items = lines if "d" in given else _split(read)
    if "L" in given:
        return [(*command, *_split(line)) for line in lines]
    if given.get("n", "").isdigit() and int(given["n"]):
        size = int(given["n"])
        return [(*command, *items[n : n + size]) for n in range(0, len(items), size)]
    return [(*command, *items)]


_PARALLEL_VALUES = frozenset(
    """-j -P -S -n -N -L -I -C -d -E -a -s --jobs --max-procs --sshlogin --sshloginfile --max-args --max-replace-args
    --max-lines --colsep --delimiter --arg-file --delay --joblog --results --timeout --retries --tmpdir --workdir --wd
    --env --halt --halt-on-error --nice --load --memfree --tagstring --basefile --shuf --seqreplace --block --recstart
    --recend --profile --max-chars --plus --id --semaphorename --st --semaphoretimeout""".split()
)
_PLACE = re.compile(r"\{(\d*)([./#%+]*)\}")


def _parallel(argv: list[str], stdin: str | None) -> list[RunCommand]:
    """`parallel COMMAND ::: ITEM…`: the words are joined to one shell text, for each item."""
    words = _past(list(argv[1:]), _PARALLEL_VALUES)
    marks = [n for n, word in enumerate(words) if word in (":::", ":::+", "::::", "::::+")]
    if not marks and "--" in words:
        marks = [words.index("--")]
    command = words[: marks[0]] if marks else words
    groups: list[list[str]] = []
    for start, end in pairwise([*marks, len(words)]):
        groups.append([UNKNOWN] if words[start].startswith("::::") else words[start + 1 : end])
    if not marks:
        if stdin is not None and stdin.startswith(UNKNOWN) and not command:
            return [RunCommand(reads=True)]
        groups = [stdin.splitlines() if stdin is not None and known(stdin) else [UNKNOWN]]
    chosen = list(islice(product(*groups), _MOST_ITEMS + 1))
    if len(chosen) > _MOST_ITEMS:
        chosen = [tuple(UNKNOWN for _ in groups)]
    made = []
    for items in chosen:
        text = " ".join(command)

        def one(found: re.Match[str], items: tuple[str, ...] = items) -> str:
            n = int(found[1] or 1)
            return items[n - 1] if not found[2] and 0 < n <= len(items) and (found[1] or len(items) == 1) else UNKNOWN

        filled = _PLACE.sub(one, text) if len(items) == 1 or _PLACE.search(text) else text
        made.append(RunCommand(text=filled if filled != text else " ".join((text, *items)).strip()))
    return made


_FIND_NAMES = frozenset({"-name", "-iname", "-path", "-wholename"})


def names_a_git_directory(test: str) -> bool:
    """Whether a name that `find` looks for may be a git directory, or something at the top of one."""
    return not known(test) or any(fnmatch.fnmatch(name, test.rpartition("/")[2]) for name in _INSIDE)


def _find(argv: list[str], stdin: str | None) -> list[RunCommand]:  # noqa: ARG001 (one form for all)
    made = []
    words = argv[1:]
    tests = [(word, words[n + 1]) for n, word in enumerate(words[:-1]) if word in _FIND_NAMES]
    root = words[0] if words and words[0][:1] not in ("-", "(", "!") else "."
    found = f"{root}/{UNKNOWN}"
    if any(name.rpartition("/")[2] == ".git" for _, name in tests):
        found = next(name for _, name in tests if name.rpartition("/")[2] == ".git")
    elif not {"-o", "-or", "!", "-not", ","} & set(words):
        # Everything that is found has such a name, wherever it lies.
        named = [name for test, name in tests if test in ("-name", "-iname") and not names_a_git_directory(name)]
        found = f"{UNKNOWN}/{named[0]}" if named else found
    for n, word in enumerate(words):
        if word not in ("-exec", "-execdir", "-ok", "-okdir"):
            continue
        end = next((m for m in range(n + 1, len(words)) if words[m] in (";", "+")), len(words))
        made.append(RunCommand(tuple(each.replace("{}", found) for each in words[n + 1 : end])))
    return made


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
