"""Programs that are given code on their command line (`python -c`, `perl -e`, `awk`): what of it concerns the guard.

Code is not parsed. Code that names git needs approval (`may_run_git`). Commands that it runs and files that it changes
are found where they are literal: commands as texts or lists, and the usual calls that delete and write. awk runs
commands only by `system` and pipes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from git_agentos.guard.call import UNKNOWN
from git_agentos.guard.shell.runners import RunCommand, base
from git_agentos.guard.shell.words import ansi, known, split_options

_INTERPRETERS = frozenset(
    """python pypy ipython perl ruby node nodejs bun deno php lua luajit Rscript R osascript tclsh elixir erl ghc guile
    sbcl groovy scala julia emacs vim nvim vi ex ed pwsh powershell""".split()
)
# Options whose value is code, in the next word or joined to them: the letters of most, those of some, and names.
_LETTERS, _LETTERS_OF_SOME = "ceEprB", "c"
_SOME = ("python", "pypy", "ipython", "vim", "nvim", "vi", "ex", "guile")
_LONG = r"--?(?:eval|exec|execute|command|Command|EncodedCommand|print|script)"
_NO_PATH = re.compile(r"[\s()'\"]")
AWK = frozenset({"awk", "gawk", "mawk", "nawk"})

_GIT = re.compile(
    r"(?<![\w.-])git(?![\w@.+]|://)|(?<!\w)"
    r"(?:git_filter_repo|pygit2|dulwich|simple-git|isomorphic-git|nodegit|gitpython|rugged)(?!\w)"
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
# Calls that delete a folder, and calls that delete a file or write to it, with the literal path.
_DELETES_TREE = re.compile(
    rf"(?:rmtree|rm_rf|rm_r|rmSync|removeSync|remove_tree|rimraf|rmdirSync|fs\.rm)\(?\s*({_STRING})", re.DOTALL
)
_WRITES = re.compile(
    rf"(?:\bunlink|unlinkSync|os\.remove|os\.rmdir|File\.(?:delete|unlink|write)|FileUtils\.rm|writeFile(?:Sync)?"
    rf"|truncate(?:Sync)?|file_put_contents)\(?\s*({_STRING})"
    rf"|\bopen\(\s*({_STRING})\s*,\s*(?:mode\s*=\s*)?['\"](?:[wax]|r\+|>)"
    rf"|Path\(\s*({_STRING})\s*\)\s*\.(?:unlink|rmdir|write_text|write_bytes|open\(\s*['\"]w|rename|replace)",
    re.DOTALL,
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


def code_of(name: str, argv: Sequence[str], stdin: str | None, stdin_is_file: bool) -> list[str] | None:
    """The code that an interpreter is given, among other words; None if `name` is not an interpreter, or if it runs a
    file."""
    if name in ("make", "gmake"):
        return [word.partition("=")[2] for word in argv[1:] if "=" in word]
    if name in AWK:
        operands, given = split_options(argv[1:], _AWK_VALUES)
        return None if {"-f", "--file"} & given.keys() else given.get("-e", operands[:1])
    plain = re.sub(r"[\d.]+(?:-?\w*)?$", "", name)
    if plain not in _INTERPRETERS:
        return None
    code, rest, reads_input = _code_in_options(argv[1:], _LETTERS_OF_SOME if plain in _SOME else _LETTERS)
    if rest and rest[0].startswith("/dev/fd/") and not known(rest[0]):
        return [rest[0]]
    if reads_input and rest[:1] in ([], ["-"], ["/dev/stdin"]) and stdin is not None and not stdin_is_file:
        # If options have values, one of these may be the file that is run.
        code += [stdin] if known(stdin) or len(code) == len(argv) - 1 - len(rest) else []
    return code


def _code_in_options(words: Sequence[str], letters: str) -> tuple[list[str], list[str], bool]:
    """What may be code in the options and their values; the words from the first on that is neither; whether the code
    may be the input, since no option is known to give any."""
    is_code = re.compile(rf"-\w*[{letters}]|{_LONG}|eval").fullmatch
    joined_code = re.compile(rf"-\w*?[{letters}]|{_LONG}=").match
    code: list[str] = []
    is_given = False
    before, rest = "", list(words)
    while rest and rest[0] != "-" and (rest[0][:1] in ("-", "+") or before[:1] == "-" or is_code(before or rest[0])):
        word = rest.pop(0)
        joined = joined_code(word)
        if is_code(before) or (joined and not is_code(word)):
            code.append(word[joined.end() :] if joined else word)
            is_given = True
        elif before == "-m":  # a module of Python's
            code.append(word)
            is_given = True
        elif word[:1] in ("-", "+") or (known(word) and _NO_PATH.search(word)):
            code.append(word)
        before = word
    return code, rest, not is_given


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


def commands_in(code: str) -> Iterator[RunCommand]:
    """The literal commands that code in any language runs, and the literal changes of files."""
    for pattern, command in ((_DELETES_TREE, ("rm", "-rf")), (_WRITES, ("truncate",))):
        for found in pattern.finditer(code):
            yield RunCommand((*command, _value(next(filter(None, found.groups())))))
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
            yield RunCommand(tuple(words))
        elif " " in words[0]:
            yield RunCommand(text=words[0])


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

_AWK_VALUES = frozenset({"-v", "-F", "-f", "--file", "-e", "--assign", "--field-separator"})
_AWK_STRING = r'"(?:[^"\\]|\\.)*"'
# Comments and patterns, which are no code; a slash behind anything else divides.
_AWK_OTHER = re.compile(
    rf"({_AWK_STRING})|\#[^\n]*|(^|[(,!~{{}};&|?:=\n])(\s*)/(?:[^/\\\n\[]|\\.|\[\^?\]?[^\]\n]*\])*/", re.DOTALL
)
_AWK_TEXT = rf"((?:{_AWK_STRING}|[^\"{{}};\n|])*)"
_AWK_RUNS = re.compile(
    rf"\bsystem\s*\({_AWK_TEXT}|((?:{_AWK_STRING}|[^\"(){{}};\n|])*)\|&?\s*getline|\|&?{_AWK_TEXT}|@", re.DOTALL
)
_MOST_CODE = 1 << 14


def awk_commands(code: str, stdin: str | None) -> Iterator[tuple[str, str | None]]:
    """The commands that an awk program runs, with what each reads; computed parts are UNKNOWN."""
    if len(code) > _MOST_CODE:
        yield UNKNOWN, stdin
        return
    code = _AWK_OTHER.sub(lambda found: found[1] or f"{found[2] or ''}{found[3] or ''} ", code).replace("||", " ")
    for found in _AWK_RUNS.finditer(code):
        text = next((each for each in found.groups() if each is not None), "")
        yield _awk_text(text), UNKNOWN if found[3] is not None else stdin


def _awk_text(expression: str) -> str:
    """The text that an expression is: its strings, joined; everything else is UNKNOWN."""
    text = ""
    for string, other in re.findall(rf"({_AWK_STRING})|([^\s()\"]+)", expression):
        text += ansi(string[1:-1]) if string else "" if other and text.endswith(UNKNOWN) else UNKNOWN
    return text or UNKNOWN
