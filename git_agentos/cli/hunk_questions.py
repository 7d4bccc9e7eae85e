"""The questions of `restore --patch`: hunk by hunk, with the keys of `git restore --patch`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from git_agentos.checkpoint.restore.choice import Chooser, FileChoice
from git_agentos.cli.output import Output
from git_agentos.cli.render.text import patch
from git_agentos.errors import UsageError
from git_agentos.git import editor, hunks
from git_agentos.git.hunks import Hunk, HunkKind
from git_agentos.git.location import Location
from git_agentos.util import quote
from git_agentos.util.values import count

if TYPE_CHECKING:
    from git_agentos.checkpoint.queries import FileDifference

_QUESTIONS = {
    HunkKind.TEXT: "Discard this hunk from worktree",
    HunkKind.MODE: "Discard mode change from worktree",
    HunkKind.ADDITION: "Discard addition from worktree",
    HunkKind.DELETION: "Discard deletion from worktree",
    HunkKind.BINARY: "Discard change of binary file from worktree",
    HunkKind.TYPE: "Discard change of type from worktree",
}
_HELP = {
    "y": "discard this hunk from worktree",
    "n": "do not discard this hunk from worktree",
    "q": "quit; do not discard this hunk or any of the remaining ones",
    "a": "discard this hunk and all later hunks in the file",
    "d": "do not discard this hunk or any of the later hunks in the file",
    "j": "leave this hunk undecided, see next undecided hunk",
    "J": "leave this hunk undecided, see next hunk",
    "k": "leave this hunk undecided, see previous undecided hunk",
    "K": "leave this hunk undecided, see previous hunk",
    "g": "select a hunk to go to",
    "/": "search for a hunk matching the given regex",
    "s": "split the current hunk into smaller hunks",
    "e": "manually edit the current hunk",
    "p": "print the current hunk",
    "?": "print help",
}
_ALWAYS = "ynqad"
_HOW_TO_EDIT = b"""# ---
# To remove '+' lines, make them ' ' lines (context).
# To remove '-' lines, delete them.
# Lines starting with # will be removed.
# If the patch applies cleanly, the edited hunk will immediately be marked for discarding.
"""


def chooser(output: Output, location: Location) -> Chooser:
    """Asks at the terminal; UsageError if there is none."""
    if not output.is_interactive():
        raise UsageError(
            "--patch asks questions, and there is no terminal",
            "'--hunks PATH:N' restores hunks by their number in 'git agentos checkpoint diff ID'",
        )

    def choose(differences: Sequence[FileDifference]) -> list[FileChoice]:
        if not differences:
            output.progress("No changes.")
        found = []
        for each in differences:
            questions = _Questions(output, location, each)
            questions.ask()
            if chosen := questions.chosen():
                found.append(FileChoice(each, chosen))
            if questions.is_quit:
                break
        return found

    return choose


@dataclass
class _Questions:
    """The questions about one file: its hunks, and what is decided about each (None: nothing yet)."""

    output: Output
    location: Location
    difference: FileDifference
    hunks: list[Hunk] = field(init=False)
    decisions: list[bool | None] = field(init=False)
    at: int = 0
    is_quit: bool = False

    def __post_init__(self) -> None:
        self.hunks = list(self.difference.patch.hunks)
        self.decisions = [None] * len(self.hunks)

    def chosen(self) -> tuple[Hunk, ...]:
        """The chosen hunks. If all parts of a hunk that was split are chosen, as they are, it is as if it was not."""
        if all(self.decisions) and not any(each.is_edited for each in self.hunks):
            return self.difference.patch.hunks
        return tuple(hunk for hunk, decision in zip(self.hunks, self.decisions, strict=True) if decision)

    def ask(self) -> None:
        """Ask until everything in the file is decided."""
        self._print(self.difference.patch.head)
        shown: Hunk | None = None
        while None in self.decisions and not self.is_quit:
            hunk = self.hunks[self.at]
            if hunk is not shown:
                self._print([hunk.header, *hunk.body])
            shown = hunk
            allowed = self._allowed(hunk)
            keys = ",".join([*_ALWAYS, *allowed, "?"])
            place = f"({self.at + 1}/{len(self.hunks)}) {_QUESTIONS[hunk.kind]} [{keys}]? "
            line = self.output.prompt(self.output.style().paint("bold", place))
            if line is None:
                self._key_q("")
                continue
            key, rest = line.strip()[:1], line.strip()[1:].strip()
            if key == "" or (key not in _ALWAYS and key not in allowed):
                self._help(allowed, key)
            elif key == "p":
                shown = None
            else:
                _KEYS[key](self, rest)

    def _allowed(self, hunk: Hunk) -> str:
        """The keys that mean something here, beside those that always do."""
        keys = ""
        keys += "k" if self._undecided(range(self.at - 1, -1, -1)) is not None else ""
        keys += "K" if self.at > 0 else ""
        keys += "j" if self._undecided(range(self.at + 1, len(self.hunks))) is not None else ""
        keys += "J" if self.at + 1 < len(self.hunks) else ""
        keys += "g/" if len(self.hunks) > 1 else ""
        keys += "s" if len(hunks.split(hunk)) > 1 else ""
        keys += "e" if hunk.kind is HunkKind.TEXT else ""
        return keys + "p"

    def _undecided(self, places: range) -> int | None:
        return next((n for n in places if self.decisions[n] is None), None)

    def _decide(self, decision: bool) -> None:
        self.decisions[self.at] = decision
        self._go_on()

    def _go_on(self) -> None:
        """Go to the next undecided hunk, or to the first where none follows."""
        following = self._undecided(range(self.at + 1, len(self.hunks)))
        if following is None:
            following = self._undecided(range(len(self.hunks)))
        self.at = self.at if following is None else following

    def _decide_rest(self, decision: bool, begin: int) -> None:
        for n in range(begin, len(self.hunks)):
            if self.decisions[n] is None:
                self.decisions[n] = decision

    # -- the keys ---------------------------------------------------------------------------------------------

    def _key_y(self, _: str) -> None:
        self._decide(True)

    def _key_n(self, _: str) -> None:
        self._decide(False)

    def _key_a(self, _: str) -> None:
        self._decide_rest(True, self.at)
        self._go_on()

    def _key_d(self, _: str) -> None:
        self._decide_rest(False, self.at)
        self._go_on()

    def _key_q(self, _: str) -> None:
        self._decide_rest(False, 0)
        self.is_quit = True

    def _key_j(self, _: str) -> None:
        self.at = self._undecided(range(self.at + 1, len(self.hunks))) or self.at

    def _key_k(self, _: str) -> None:
        found = self._undecided(range(self.at - 1, -1, -1))
        self.at = self.at if found is None else found

    def _key_next(self, _: str) -> None:
        self.at += 1

    def _key_previous(self, _: str) -> None:
        self.at -= 1

    def _key_g(self, rest: str) -> None:
        if not rest:
            for number, hunk in enumerate(self.hunks, 1):
                mark = {None: " ", True: "+", False: "-"}[self.decisions[number - 1]]
                self._say(f"{mark}{number:2}: {_summary(hunk)}")
            rest = (self.output.prompt("go to which hunk? ") or "").strip()
        if not rest.isascii() or not rest.isdigit():
            self._say(f"Invalid number: '{quote.line(rest)}'")
        elif not 1 <= int(rest) <= len(self.hunks):
            self._say(f"Sorry, only {count(len(self.hunks), 'hunk')} available.")
        else:
            self.at = int(rest) - 1

    def _key_search(self, rest: str) -> None:
        text = rest or self.output.prompt("search for regex? ") or ""
        try:
            wanted = re.compile(text.encode("utf-8", "surrogateescape"), re.MULTILINE)
        except re.error as error:
            self._say(f"Malformed search regexp {quote.line(text)}: {error}")
            return
        places = [*range(self.at + 1, len(self.hunks)), *range(self.at + 1)]
        found = [n for n in places if wanted.search(b"\n".join([self.hunks[n].header, *self.hunks[n].body]))]
        if text and found:
            self.at = found[0]
        elif text:
            self._say("No hunk matches the given pattern")

    def _key_s(self, _: str) -> None:
        parts = hunks.split(self.hunks[self.at])
        self._say(f"Split into {len(parts)} hunks.")
        self.hunks[self.at : self.at + 1] = parts
        self.decisions[self.at : self.at + 1] = [None] * len(parts)

    def _key_e(self, _: str) -> None:
        hunk = self.hunks[self.at]
        text = b"# Manual hunk edit mode -- see bottom for a quick guide.\n"
        text += b"".join(row + b"\n" for row in (hunk.header, *hunk.body)) + _HOW_TO_EDIT
        while True:
            written = editor.edit(self.location, text, "addp-hunk-edit.diff")
            if written is None:
                self._say("The editor failed: the hunk was left as it is.")
                return
            try:
                changed = hunks.edited(hunk, written)
                if changed is None:
                    return  # as git: the edit is given up
                self._check(changed)
            except hunks.NotApplicableError:
                question = 'Your edited hunk does not apply. Edit again (saying "no" discards!) [y/n]? '
                if not (self.output.prompt(question) or "n").strip().lower().startswith("y"):
                    return
                text = written
                continue
            self.hunks[self.at] = changed
            self._decide(True)
            return

    def _check(self, changed: Hunk) -> None:
        """NotApplicableError if an edited hunk does not fit the file, or overlaps another one."""
        content = self.difference.content or b""
        if not hunks.fits(content, changed):
            raise hunks.NotApplicableError
        others = [each for n, each in enumerate(self.hunks) if n != self.at and each.kind is HunkKind.TEXT]
        hunks.take_back(content, [changed])
        hunks.take_back(content, [*others, changed])

    # -- what is shown ----------------------------------------------------------------------------------------

    def _help(self, allowed: str, key: str) -> None:
        if key not in ("", "?") and key in _HELP:
            self._say(f"Sorry, '{key}' is not possible for this hunk")
            return
        for each in (*_ALWAYS, *allowed, "?"):
            self._say(f"{each} - {_HELP[each]}")

    def _print(self, rows: Sequence[bytes]) -> None:
        data = b"\n".join(row for row in _with_empty(rows))
        if data:
            self._say(patch.coloured(data, self.output.style()))

    def _say(self, text: str) -> None:
        self.output.progress(text)


_KEYS: dict[str, Callable[[_Questions, str], None]] = {
    "y": _Questions._key_y,
    "n": _Questions._key_n,
    "q": _Questions._key_q,
    "a": _Questions._key_a,
    "d": _Questions._key_d,
    "j": _Questions._key_j,
    "J": _Questions._key_next,
    "k": _Questions._key_k,
    "K": _Questions._key_previous,
    "g": _Questions._key_g,
    "/": _Questions._key_search,
    "s": _Questions._key_s,
    "e": _Questions._key_e,
}


def _with_empty(rows: Sequence[bytes]) -> Iterator[bytes]:
    """The rows without an empty header, which a file as a whole has."""
    return (row for n, row in enumerate(rows) if row or n > 0)


def _summary(hunk: Hunk) -> str:
    """The place of a hunk and its first change, in 79 columns at most."""
    change = next((row for row in hunk.body if row[:1] in (b"+", b"-")), b"")
    place = hunk.header.partition(b"@@ ")[2].partition(b" @@")[0]
    text = (place + b"  " + change).decode("utf-8", "replace") if place else str(hunk.kind)
    return quote.line(text)[:74]
