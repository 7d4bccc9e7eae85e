"""Programs that are given code on their command line (`python -c`, `perl -e`, `awk`): what of it concerns the guard.

Code is not parsed. Code that names git needs approval (`may_run_git`). Commands that it runs and files that it changes
are found where they are literal: commands as texts or lists, and the usual calls that delete and write. awk is small
enough to be parsed: it runs commands only by `system` and pipes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from git_agentos.guard.shell.runners import base
from git_agentos.guard.shell.words import UNKNOWN, ansi, known

# Options (the last letter of a cluster counts) whose value, or the next word, is code.
_CODE: Mapping[str, str] = {
    "python": "c", "pypy": "c", "ipython": "c", "perl": "eE", "ruby": "e", "node": "ep", "nodejs": "ep", "bun": "ep",
    "deno": "", "php": "rBE", "lua": "e", "luajit": "e", "Rscript": "e", "R": "e", "osascript": "e", "tclsh": "",
    "awk": "", "gawk": "e", "mawk": "", "nawk": "", "elixir": "e", "erl": "", "ghc": "e", "guile": "c", "sbcl": "",
    "groovy": "e", "scala": "e", "julia": "eE", "emacs": "", "vim": "c", "nvim": "c", "vi": "c", "ex": "c", "ed": "",
    "pwsh": "", "powershell": "", "make": "", "gmake": "",
}  # fmt: skip
# Options whose value is joined to them, and is not code.
_JOINING: Mapping[str, str] = {
    "perl": "MmICDFx",
    "python": "WX",
    "pypy": "WX",
    "ruby": "rICEKWx",
    "php": "dcz",
    "lua": "l",
}
_LONG = frozenset(
    """--eval --print --execute --command -Command -EncodedCommand --exec --script -c -e -r -p --run eval -eval
    --batch --eval-file --source""".split()
)
AWK = frozenset({"awk", "gawk", "mawk", "nawk"})

_GIT = re.compile(
    r"(?<![\w.-])git(?![\w@.+]|://)|(?<!\w)(?:pygit2|dulwich|simple-git|isomorphic-git|nodegit|gitpython|rugged)(?!\w)"
)
_GIT_DIRECTORY = re.compile(r"(?<!\w)\.git(?![\w-]|\.)")
_TOUCHING = re.compile(
    r"rmtree|unlink|remove|rename|replace\(|rmdir|rmSync|writeFile|write_text|write_bytes|truncate|\bopen\([^)]*['\"][waxr]?"
    r"[wax+]|system|exec|spawn|popen|subprocess|copy|move|File\.|IO\.|chmod"
)
_JOINED = re.compile(r"""(['"])\s*[+.]?\s*\1""")

_STRING = (
    r"""(?:[rbu]{0,2}(?:'''(?:[^\\]|\\.)*?'''|\"\"\"(?:[^\\]|\\.)*?\"\"\"|'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"))"""
)
_STRINGS = re.compile(
    rf"{_STRING}(?:\s*,\s*{_STRING})*|`[^`]*`|qw\s*(?:\([^)]*|\[[^\]]*|\{{[^}}]*|/[^/]*)|%x\W[^)\]}}]*", re.DOTALL
)
_ONE = re.compile(_STRING, re.DOTALL)
_RUNS = re.compile(r"system|exec|spawn|popen|subprocess|\brun\(|\bcall\(|`|%x|\bsh\b|ShellScript")
_COMMANDS = frozenset(
    """rm rmdir mv cp find shred truncate dd unlink tee sed rsync install ln sh bash zsh dash sudo env xargs chmod
    tar""".split()
)
_FIRST = rf"\(?\s*({_STRING})"
_DELETES_TREE = re.compile(
    rf"(?:rmtree|rm_rf|rm_r|rmSync|removeSync|remove_tree|rimraf|rmdirSync|fs\.rm){_FIRST}", re.DOTALL
)
_DELETES = re.compile(
    rf"(?:\bunlink|unlinkSync|os\.remove|os\.rmdir|File\.delete|File\.unlink|FileUtils\.rm){_FIRST}", re.DOTALL
)
_WRITES = re.compile(
    rf"(?:writeFileSync|writeFile|truncateSync|truncate|File\.write|file_put_contents){_FIRST}"
    rf"|\bopen\(\s*({_STRING})\s*,\s*(?:mode\s*=\s*)?['\"](?:[wax]|r\+|>)",
    re.DOTALL,
)
_PATH = re.compile(
    rf"Path\(\s*({_STRING})\s*\)\s*\.(unlink|rmdir|write_text|write_bytes|open\(\s*['\"]w|rename|replace)", re.DOTALL
)
_SED_ADDRESS = r"(?:\d+|\$|/(?:[^/\\\n]|\\.)*/)"
_SED_RUNS = re.compile(
    rf"(?:^|[;{{}}\n])\s*(?:{_SED_ADDRESS}\s*(?:,\s*{_SED_ADDRESS})?)?\s*!?\s*e(?:\s|$)"
    r"|s([^\w\s\\])(?:[^\\\n]|\\.)*?\1(?:[^\\\n]|\\.)*?\1[\dgpiImM]*e"
)


# Perl code that runs something, or code that is composed at run time.
_PERL_RUNS = re.compile(
    r"system|exec|qx|`|open|IPC|fork|syscall|eval|require|\buse\b|\bdo\b|&\s*[{$]|->|/[a-z]*ee[a-z]*\b"
)


class Found(NamedTuple):
    """What code does: a command line (`argv`), or shell `text`; with `fed`, its input is unknown."""

    argv: tuple[str, ...] = ()
    text: str | None = None
    fed: bool = False


def code_of(name: str, argv: Sequence[str], stdin: str | None, stdin_is_file: bool) -> list[str] | None:
    """The code that an interpreter is given; None if `name` is not an interpreter, or if it runs a file."""
    plain = re.sub(r"[\d.]+(?:-?\w*)?$", "", name) if name not in _CODE else name
    if plain not in _CODE:
        return None
    if plain in ("make", "gmake"):
        return [word.partition("=")[2] for word in argv[1:] if "=" in word]
    found = _code_and_operands(plain, argv[1:])
    if found is None:
        return None
    code, operands = found
    if plain in AWK:
        return code or operands[:1]
    if code:
        return code
    if (not operands or operands[0] in ("-", "/dev/stdin")) and stdin is not None and not stdin_is_file:
        return [stdin]
    if operands and operands[0].startswith("/dev/fd/") and not known(operands[0]):
        return [operands[0]]
    return None


def _code_and_operands(plain: str, arguments: Sequence[str]) -> tuple[list[str], list[str]] | None:
    """The values of options that hold code, and the operands; None if the code is in a file."""
    code: list[str] = []
    operands: list[str] = []
    words = list(arguments)
    letters = _CODE[plain]
    while words:
        word = words.pop(0)
        if word in _LONG or (plain == "deno" and word == "eval"):
            code += words[:1]
            words = words[1:]
        elif word.startswith("--") and "=" in word and word.partition("=")[0] in _LONG:
            code.append(word.partition("=")[2])
        elif word[:1] == "-" and word[1:2] in _JOINING.get(plain, "-"):
            words = words if word[2:] else words[1:]
        elif word[:1] == "-" and set(word[1:]) & set(letters):
            joined = word[min(word.index(letter) for letter in letters if letter in word[1:]) + 1 :]
            code += [joined] if joined else words[:1]
            words = words if joined else words[1:]
        elif word == "-m" and plain in ("python", "pypy"):
            return [" ".join(words[:1]).replace("git_filter_repo", "git filter-repo")], []
        elif word.startswith("+") and plain in ("vim", "nvim", "vi", "ex"):
            code.append(word)
        elif plain in AWK and word in ("-f", "--file"):
            return None  # files are not read
        elif plain in AWK and word in ("-v", "-F"):
            words = words[1:]
        elif not word.startswith("-") or word == "-":
            operands.append(word)
    return code, operands


def may_run_git(code: str) -> bool:
    """Whether code names git, as a program or as a folder that it writes to."""
    for text in {code, _JOINED.sub("", code)}:
        if _GIT.search(text) or (_GIT_DIRECTORY.search(text) and _TOUCHING.search(text)):
            return True
    return False


def only_matches(name: str, code: str) -> bool:
    """Whether perl code runs nothing: then the text of its patterns does not matter."""
    return name.startswith("perl") and not any(_PERL_RUNS.search(text) for text in (code, _JOINED.sub("", code)))


def sed_runs_git(argv: Sequence[str]) -> bool:
    """Whether `sed` runs git, by its command `e` or the flag `e` of `s`."""
    return any(_SED_RUNS.search(word) and _GIT.search(word) for word in argv[1:])


def commands_in(code: str) -> Iterator[Found]:
    """The literal commands that code in any language runs, and the literal changes of files."""
    for pattern, command in ((_DELETES_TREE, ("rm", "-rf")), (_DELETES, ("rm", "-f")), (_WRITES, ("truncate",))):
        for found in pattern.finditer(code):
            yield Found((*command, _value(next(filter(None, found.groups())))))
    for found in _PATH.finditer(code):
        yield Found(("rm" if found[2] in ("unlink", "rmdir", "rename", "replace") else "truncate", _value(found[1])))
    if not _RUNS.search(code):
        return
    for found in _STRINGS.finditer(_JOINED.sub("", code)):
        words = [_value(each) for each in _ONE.findall(found[0])]
        if not words:
            words = [re.sub(r"^(?:qw\s*.|%x.|`)|`$", "", found[0])]
            words = words[0].split() if found[0].startswith("qw") else words
        name = words[0].split(None, 1)[:1]
        if not name or name[0].rpartition("/")[2] not in _COMMANDS:
            continue
        if len(words) > 1 and " " not in words[0]:
            yield Found(tuple(words))
        elif " " in words[0]:
            yield Found(text=words[0])


def _value(literal: str) -> str:
    """The value of a string literal, roughly: for paths and commands languages differ little."""
    prefix = re.match(r"[rbu]*", literal)
    text = literal[prefix.end() if prefix else 0 :]
    quotes = 3 if text[:3] in ("'''", '"""') and len(text) >= 6 else 1
    return ansi(text[quotes:-quotes]) if "\\" in text else text[quotes:-quotes]


# Programs that print settings for the shell to evaluate -> the first operands with which they do so, "" for none.
_PRINT_SETTINGS = {
    "ssh-agent": "", "dircolors": "", "direnv": "export hook", "pyenv": "init virtualenv-init", "rbenv": "init",
    "nodenv": "init", "brew": "shellenv", "conda": "shell.bash shell.zsh shell.posix", "fnm": "env", "opam": "env",
    "mise": "activate env hook-env", "minikube": "docker-env", "starship": "init", "zoxide": "init", "luarocks": "path",
}  # fmt: skip


def prints_settings(argv: Sequence[str]) -> bool:
    """Whether a program only prints variables and completions, for `eval "$(…)"`."""
    operands = [word for word in argv[1:] if not word.startswith("-")]
    if operands[:1] in (["completion"], ["completions"]):
        return len(operands) < 3
    settings = _PRINT_SETTINGS.get(base(argv[0]))
    return settings is not None and (operands[0] in settings.split() if operands else settings == "")


# -- awk ---------------------------------------------------------------------------------------------------------------

_AWK_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[A-Za-z_]\w*|\|\||&&|\|&|\s+|.', re.DOTALL)
_AWK_PATTERN = re.compile(r"/(?:[^/\\\n\[]|\\.|\[\^?\]?[^\]\n]*\])*/")
# Behind these, a slash begins a pattern; else it divides.
_BEFORE_PATTERN = frozenset("( , ! ~ { } ; && || ? : =".split()) | {""}


def awk_commands(code: str) -> Iterator[Found]:
    """The commands that an awk program runs; computed parts are UNKNOWN."""
    tokens = list(_awk_tokens(code))
    for n, token in enumerate(tokens):
        if token == "system" and tokens[n + 1 : n + 2] == ["("]:
            yield Found(text=_awk_text(_enclosed(tokens[n + 1 :])))
        elif token in ("|", "|&"):
            if tokens[n + 1 : n + 2] == ["getline"]:
                start = next((m for m in range(n - 1, -1, -1) if tokens[m] in ("{", "}", ";", "\n", "(")), -1)
                yield Found(text=_awk_text(tokens[start + 1 : n]))
            else:
                end = next((m for m in range(n + 1, len(tokens)) if tokens[m] in ("}", ";", "\n")), len(tokens))
                yield Found(text=_awk_text(tokens[n + 1 : end]), fed=True)
        elif token == "@":  # a function by its name, or code of another file
            yield Found(text=UNKNOWN)


def _awk_tokens(code: str) -> Iterator[str]:
    """The tokens of a program, without comments and patterns; a line end is a token."""
    at, before = 0, ""
    while at < len(code):
        if code[at] == "#":
            end = code.find("\n", at)
            at = end if end >= 0 else len(code)
            continue
        pattern = _AWK_PATTERN.match(code, at) if before in _BEFORE_PATTERN else None
        if pattern is not None:
            at, before = pattern.end(), "/"
            continue
        found = _AWK_TOKEN.match(code, at)
        if found is None:  # never: the pattern matches any character
            return
        at = found.end()
        if not found[0].isspace():
            before = found[0]
            yield before
        elif "\n" in found[0]:
            before = ""
            yield "\n"


def _enclosed(tokens: Sequence[str]) -> list[str]:
    """The tokens between the parenthesis with which `tokens` begin and the one that closes it."""
    depth = 0
    for n, token in enumerate(tokens):
        depth += {"(": 1, ")": -1}.get(token, 0)
        if depth == 0:
            return list(tokens[1:n])
    return list(tokens[1:])


def _awk_text(tokens: Sequence[str]) -> str:
    text = ""
    for token in tokens:
        if token.startswith('"'):
            text += ansi(token[1:-1])
        elif token not in ("(", ")") and not text.endswith(UNKNOWN):
            text += UNKNOWN
    return text
