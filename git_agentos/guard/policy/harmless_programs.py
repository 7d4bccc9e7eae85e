"""Programs that git can be configured to run and that change nothing, by what git runs them for.

git runs the programs that configuration, variables and options name: a pager reads its input, an editor edits the one
file that git gives it, a viewer is given files of the worktree. A program that is not known here needs approval.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping

PAGER, EDITOR, VIEWER, SSH, CREDENTIAL, ASKPASS, SIGNATURE, FILTER, TRANSPORT, OTHER = (
    "pager", "editor", "viewer", "ssh", "credential", "askpass", "signature", "filter", "transport", "other",
)  # fmt: skip

_NO_ARGUMENTS = r"(?!)"
_SWITCHES = r"-[A-Za-z0-9]+"
# Programs, and the arguments that they may have. Options that write a file or run something are left out.
_PAGERS: Mapping[str, str] = {
    **dict.fromkeys(("true", "false", ":", "diff-so-fancy", "diff-highlight"), _NO_ARGUMENTS),
    "cat": r"-[AbeEnstTuv]+",
    "less": r"-[AaBCcdEeFfGgiIJKMmNnqQRrSsuUVwWX~]+|--(quit|no|RAW|raw|chop|mouse|wheel|use-color)[A-Za-z-]*(=\d+)?",
    "more": r"-[dflpcsu]+",
    "most": r"-[bstvwz]+",
    "head": r"-[ncqv]*\d*|\d+",
    "tail": r"-[ncqv]*\d*|\+?\d+",
    **dict.fromkeys(("bat", "batcat"), r"-[pnA]+|--(plain|paging|style|color|theme|decorations)(=[\w,.-]+)?"),
    "delta": r"-[sn]+|--(side-by-side|line-numbers|navigate|dark|light|color-only|paging|width|hyperlinks)(=[\w.-]+)?",
    "wc": _SWITCHES,
}
_VIEWERS: Mapping[str, str] = {
    **_PAGERS,
    "diff": r"-[A-Za-z0-9]+|--[a-z-]+(=[\w.-]+)?",
    **dict.fromkeys(
        ("colordiff", "icdiff", "cmp", "ls", "stat", "file", "difft", "difftastic"), r"--?[\w-]+(=[\w.-]+)?"
    ),
    **dict.fromkeys(("md5sum", "sha1sum", "sha256sum"), _SWITCHES),
    "echo": r"[\w.,:=-]+",
    **dict.fromkeys(
        "meld kdiff3 opendiff bcompare bcomp p4merge xxdiff tkdiff diffuse kompare smerge man woman firefox chromium "
        "google-chrome xdg-open open w3m lynx".split(),
        _NO_ARGUMENTS,
    ),
    **dict.fromkeys("vimdiff nvimdiff gvimdiff view gview".split(), r"-[dfRno]+"),
}
_EDITORS: Mapping[str, str] = {
    **dict.fromkeys("vi vim nvim gvim".split(), r"-[dfRno]+"),
    **dict.fromkeys("nano pico ed mcedit micro hx helix kak joe ne mate gedit kate".split(), r"-[w]"),
    **dict.fromkeys("emacs emacsclient".split(), r"-nw|-t|-c|--no-window-system|--tty"),
    **dict.fromkeys(
        "code code-insiders codium cursor windsurf zed subl atom".split(),
        r"--wait|-w|--diff|-d|--new-window|-n|--reuse-window|-r",
    ),
    # One substitution in the file that git gives it: the list of a rebase.
    "sed": r"-i(\.\w+)?|-[Ee]|(\d+|/[^/]*/)?s([/|,#])[^/|,#]*\3[^/|,#]*\3[gIi\d]*",
    **dict.fromkeys(("true", "false", ":", "cat", "echo"), _NO_ARGUMENTS),
}
_PROGRAMS: Mapping[str, Mapping[str, str]] = {
    PAGER: _PAGERS,
    EDITOR: _EDITORS,
    VIEWER: {**_VIEWERS, **{name: args for name, args in _EDITORS.items() if name not in ("sed", "ed")}},
    CREDENTIAL: {
        "cache": r"--timeout=\d+|--timeout|\d+",
        **dict.fromkeys("store osxkeychain libsecret manager manager-core wincred gcm oauth".split(), _NO_ARGUMENTS),
        **dict.fromkeys(("gh", "glab"), r"auth|git-credential"),
    },
    ASKPASS: dict.fromkeys(("true", "false", "echo", "ssh-askpass", "ksshaskpass", "git-gui--askpass"), _NO_ARGUMENTS),
    SIGNATURE: dict.fromkeys("gpg gpg2 gpgsm ssh-keygen op-ssh-sign".split(), _NO_ARGUMENTS),
    FILTER: {"git-lfs": r"smudge|clean|filter-process|--skip|--|%f", "cat": _NO_ARGUMENTS},
    TRANSPORT: dict.fromkeys("git-upload-pack git-receive-pack git-upload-archive none".split(), _NO_ARGUMENTS),
    OTHER: {},
}
# The folders of the system's programs: elsewhere a name may be another program.
_SYSTEM = re.compile(r"(/usr(/local)?|/opt/homebrew)?/s?bin/")
_PLAIN = re.compile(r"[\w./=:,@%+^~ '\"|$#*\[\]-]*\Z")
_GIVEN_FILES = frozenset({"$LOCAL", "$REMOTE", "$BASE", "$MERGED"})
_SSH_VALUED = frozenset("-i -p -l -b -c -m".split())
_SSH_SETTINGS = re.compile(
    r"(IdentitiesOnly|IdentityFile|IdentityAgent|StrictHostKeyChecking|UserKnownHostsFile|GlobalKnownHostsFile|BatchMode|"
    r"ConnectTimeout|ConnectionAttempts|ServerAliveInterval|ServerAliveCountMax|LogLevel|HostKeyAlgorithms|Port|User|"
    r"PubkeyAcceptedAlgorithms|PubkeyAcceptedKeyTypes|PreferredAuthentications|AddressFamily|Compression|"
    r"PasswordAuthentication|TCPKeepAlive)[= ]\S+",
    re.IGNORECASE,
)


def is_harmless(text: str, role: str) -> bool:
    """Whether git, running `text` as `role`, changes nothing. Several programs may be joined by pipes."""
    text = text.strip().removeprefix("!").strip() if role == CREDENTIAL else text.strip()
    if not text:
        return True
    if not _PLAIN.match(text):
        return False
    try:
        lexer = shlex.shlex(text, posix=True, punctuation_chars="|")
        lexer.whitespace_split, lexer.commenters = True, ""
        words = list(lexer)
    except ValueError:
        return False
    commands: list[list[str]] = [[]]
    for word in words:
        if word == "|":
            commands.append([])
        else:
            commands[-1].append(word)
    # A program behind a pipe reads its input, whatever the role of the first.
    return all(_is_known(command, role if n == 0 else PAGER) for n, command in enumerate(commands))


def is_own_program(text: str, role: str) -> bool:
    """Whether a variable names one program of the user's own, by its path and without arguments, for a role in which it
    is given no file of the worktree: an editor's or an IDE's helper. Running it is the same as typing its name."""
    if role not in (PAGER, EDITOR, ASKPASS, SSH) or not os.path.isabs(text) or not re.fullmatch(r"[\w./+@-]+", text):
        return False
    return os.path.isfile(text) and not any(_SYSTEM.match(path) for path in (text, os.path.realpath(text)))


def _is_known(words: list[str], role: str) -> bool:
    if not words:
        return False
    folder, _, name = words[0].rpartition("/")
    if folder and not _SYSTEM.fullmatch(f"{folder}/"):
        return False
    if role == SSH:
        return name in ("ssh", "plink", "tortoiseplink") and _is_plain_ssh(words[1:])
    expected = _PROGRAMS[role].get(name)
    if expected is None:
        return False
    given = [word for word in words[1:] if not (role == VIEWER and word in _GIVEN_FILES)]
    return not any("$" in word for word in given) and all(re.fullmatch(expected, word) for word in given)


def _is_plain_ssh(words: list[str]) -> bool:
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "-o" and rest:
            word = "-o" + rest.pop(0)
        if word.startswith("-o"):
            if not _SSH_SETTINGS.fullmatch(word[2:].lstrip()):
                return False
        elif (word in _SSH_VALUED and rest) or (word == "-F" and rest[:1] in (["/dev/null"], ["none"])):
            rest.pop(0)
        elif not re.fullmatch(r"-[46ACTaqtvx]+|-[ilp][\w./~@-]+", word):
            return False
    return True
