"""Commands that look, or pack up what is there, and may write a file that the command line names: diff, archive."""

from __future__ import annotations

from collections.abc import Sequence

from git_agentos.guard.devices import is_device
from git_agentos.guard.policy.options import UNRESOLVED
from git_agentos.guard.policy.reading import OnlyLooks, Reading


def _writes(reading: Reading, name: str) -> None:
    """A file is written where a command line says: over nothing, it is nobody's loss."""
    if UNRESOLVED in name:
        reading.do("unresolved", name)
    elif reading.facts.in_git_dir(name):
        reading.do("git-dir-write", name)
    elif name and name != "-" and reading.facts.holds_bytes(name) and not is_device(name):
        reading.do("write-file", name)
        reading.save(ignored=reading.facts.ignored([name]))


def _archive(reading: Reading) -> None:
    options = reading.options(paths=True)
    for text in options.given.get("exec", ()):
        reading.do("run-command", text)
    _writes(reading, options.value("output"))


def _bundle(reading: Reading) -> None:
    which, args = (reading.args[0], reading.args[1:]) if reading.args else ("", ())
    if which == "create":
        options = reading.options("bundle create", args, paths=True)
        _writes(reading, options.operands[0] if options.operands else "")
        reading.do("objects")
    elif which == "unbundle":
        reading.do("objects")
    elif which in ("verify", "list-heads", "-h", "--help"):
        raise OnlyLooks
    else:
        reading.do("unknown-command", f"bundle {which}")


def _format_patch(reading: Reading) -> None:
    options = reading.options(paths=True)
    # Its other options are those of diff, which do not matter.
    reading.operations[:] = []
    if options.value("output"):
        _writes(reading, options.value("output"))
    elif options.value("output-directory"):
        name = options.value("output-directory")
        if UNRESOLVED not in name and reading.facts.in_git_dir(name):
            reading.do("git-dir-write", name)
    reading.do("look")


def _diff(reading: Reading) -> None:
    """log, show, diff and the like: they look, but for the file that they may write."""
    words = list(reading.args)
    end = words.index("--") if "--" in words else len(words)
    position = 0
    while position < end:
        word = words[position]
        position += 1
        name, equals, value = word.partition("=")
        if name == "--output" or (len(name) > 8 and equals and "--output".startswith(name)):
            _writes(reading, value if equals else (words[position] if position < end else ""))
        elif word in _DIFF_VALUED:
            position += 1
        elif reading.command == "grep" and (name.startswith("--open") or word.startswith("-O")):
            reading.runs(value if equals else word[2:] if word.startswith("-O") else "")
        elif reading.command == "difftool" and (name.startswith("--ext") or word.startswith("-x")):
            _difftool(reading, word, value if equals else None, words[position : position + 1])
    if not reading.operations:
        reading.do("look")


# Options whose value is the next word: it is none of its own.
_DIFF_VALUED = frozenset(
    "-S -G -O -L -n -A -B -C -e -f -m -t --grep --author --committer --since --until --after --before --format "
    "--max-count --skip --output-indicator-new --output-indicator-old --diff-filter --tool".split()
)


def _difftool(reading: Reading, word: str, value: str | None, following: Sequence[str]) -> None:
    attached = word[2:] if word.startswith("-x") else value
    text = attached or "".join(following)
    reading.runs(text)


FAMILIES = {
    "archive": _archive,
    "bundle": _bundle,
    "diff": _diff,
    "diff-files": _diff,
    "diff-index": _diff,
    "diff-tree": _diff,
    "difftool": _diff,
    "format-patch": _format_patch,
    "grep": _diff,
    "log": _diff,
    "range-diff": _diff,
    "show": _diff,
}
