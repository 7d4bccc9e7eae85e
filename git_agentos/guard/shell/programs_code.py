"""Programs that are given code on their command line (`python -c`, `perl -e`, `awk`): whether git is in it.

The code is not read as a program of its language; what may run git is not allowed unseen.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from git_agentos.guard.shell.words import known

# Options (the last letter of a cluster counts) whose value, or the next word, is code.
_CODE: Mapping[str, str] = {
    "python": "c", "pypy": "c", "ipython": "c", "perl": "eE", "ruby": "e", "node": "ep", "nodejs": "ep", "bun": "ep",
    "deno": "", "php": "rBE", "lua": "e", "luajit": "e", "Rscript": "e", "R": "e", "osascript": "e", "tclsh": "",
    "awk": "", "gawk": "e", "mawk": "", "nawk": "", "elixir": "e", "erl": "", "ghc": "e", "guile": "c", "sbcl": "",
    "groovy": "e", "scala": "e", "julia": "eE", "emacs": "", "vim": "c", "nvim": "c", "vi": "c", "ex": "c", "ed": "",
    "pwsh": "", "powershell": "", "make": "", "gmake": "",
}  # fmt: skip
# Options whose value is joined to them, and is no code.
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
    --batch --eval-file""".split()
)
_AWK = frozenset({"awk", "gawk", "mawk", "nawk"})

_GIT = re.compile(
    r"(?<![\w.-])git(?![\w@.+]|://)|(?<!\w)(?:pygit2|dulwich|simple-git|isomorphic-git|nodegit|gitpython|rugged)(?!\w)"
)
_GIT_DIRECTORY = re.compile(r"(?<!\w)\.git(?![\w-]|\.)")
_TOUCHING = re.compile(
    r"rmtree|unlink|remove|rename|replace\(|rmdir|rmSync|writeFile|write_text|write_bytes|truncate|\bopen\([^)]*['\"][waxr]?"
    r"[wax+]|system|exec|spawn|popen|subprocess|copy|move|File\.|IO\.|chmod"
)
_JOINED = re.compile(r"""(['"])\s*[+.]?\s*\1""")


def code_of(name: str, argv: Sequence[str], stdin: str | None, stdin_is_file: bool) -> list[str] | None:
    """The code that an interpreter is given; None where `name` is none, or where it runs a file."""
    plain = re.sub(r"[\d.]+(?:-?\w*)?$", "", name) if name not in _CODE else name
    if plain not in _CODE:
        return None
    if plain in ("make", "gmake"):
        return [word.partition("=")[2] for word in argv[1:] if "=" in word]
    code: list[str] = []
    operands: list[str] = []
    words = list(argv[1:])
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
            return [" ".join(words[:1]).replace("git_filter_repo", "git filter-repo")]
        elif word.startswith("+") and plain in ("vim", "nvim", "vi", "ex"):
            code.append(word)
        elif plain in _AWK and word in ("-f", "-v", "-F", "--file"):
            words = words[1:]
        elif not word.startswith("-") or word == "-":
            operands.append(word)
    if plain in _AWK:
        return code or operands[:1]
    if code:
        return code
    if (not operands or operands[0] in ("-", "/dev/stdin")) and stdin is not None and not stdin_is_file:
        return [stdin]
    if operands and operands[0].startswith("/dev/fd/") and not known(operands[0]):
        return [operands[0]]
    return None


def may_run_git(code: str) -> bool:
    """Whether code has git in it, as a program or as a folder that it writes to."""
    for text in {code, _JOINED.sub("", code)}:
        if _GIT.search(text) or (_GIT_DIRECTORY.search(text) and _TOUCHING.search(text)):
            return True
    return False
