"""Commands that look, or pack up what is there, and may write a file that the command line names: diff, archive."""

from __future__ import annotations

import os
import re

from git_agentos.guard.policy import harmless
from git_agentos.guard.policy.options import UNRESOLVED
from git_agentos.guard.policy.reading import OnlyLooks, Reading


def _archive(reading: Reading) -> None:
    options = reading.options(paths=True)
    for text in options.given.get("exec", ()):
        reading.do("run-command", text)
    reading.writes(options.value("output"))
    reading.looks_at_urls([options.value("remote")])


def _bundle(reading: Reading) -> None:
    which, args = (reading.args[0], reading.args[1:]) if reading.args else ("", ())
    if which == "create":
        options = reading.options("bundle create", args, paths=True)
        reading.writes(options.operands[0] if options.operands else "")
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
    reading.writes_what_is_named()
    if options.has("stdout") or options.value("output"):
        return
    folder = options.value("output-directory") or reading.facts.config("format.outputdirectory") or ""
    # The names begin with a number; the same patches made again are the most that is overwritten.
    found = [name for name in reading.facts.names_in(folder or ".") if re.match(r"(v[^-]*-)?\d+(-|$)", name)]
    if UNRESOLVED not in folder and reading.facts.in_git_dir(folder or "."):
        reading.do("git-dir-write", folder or ".")
    elif found and UNRESOLVED not in folder:
        reading.save(ignored=reading.facts.ignored([os.path.join(folder, name) for name in found]))
    reading.do("look")


def _diff(reading: Reading) -> None:
    """log, show, diff and the like: they look, but for the file that they may write."""
    reading.writes_what_is_named()


def _grep(reading: Reading) -> None:
    options = reading.options("grep", paths=True)
    reading.operations[:] = []  # of an option that is not known, git says so
    for text in options.given.get("open-files-in-pager", ()):
        reading.runs_program(text, harmless.VIEWER)
        variable = reading.facts.variable("GIT_PAGER") or reading.facts.variable("PAGER")
        if not text and variable:
            # A pager in the environment is given files here.
            reading.runs_program(variable, harmless.VIEWER)


def _difftool(reading: Reading) -> None:
    options = reading.options("difftool", paths=True)
    reading.operations[:] = []  # its other options are those of diff
    reading.writes_what_is_named()
    for text in options.given.get("extcmd", ()):
        reading.runs_program(text, harmless.VIEWER)
    for name in (*options.given.get("tool", ()), reading.facts.variable("GIT_DIFF_TOOL")):
        if "/" in name or UNRESOLVED in name:
            # A tool is a file in a folder of git's own, or by such a name in any other.
            reading.do("run-command", name)


def _mailinfo(reading: Reading) -> None:
    """`git mailinfo MESSAGE PATCH` writes both."""
    for name in [word for word in reading.args if not word.startswith("-")][-2:]:
        reading.writes(name)


def _mailsplit(reading: Reading) -> None:
    folders = [word[2:] for word in reading.args if word.startswith("-o")]
    for folder in folders:
        reading.writes_below(folder, r"\d+")


def _interpret_trailers(reading: Reading) -> None:
    options = reading.options("interpret-trailers", paths=True)
    reading.operations[:] = []
    if options.has("in-place"):
        for name in options.operands:
            # The message that git is about to use, as a hook edits it.
            if os.path.basename(name) not in ("COMMIT_EDITMSG", "MERGE_MSG", "SQUASH_MSG", "TAG_EDITMSG"):
                reading.writes(name)


def _report(reading: Reading) -> None:
    """bugreport and diagnose: a new file, named after the time or as an option says, in a folder."""
    options = reading.options("bugreport", paths=True)
    suffix = options.value("suffix")
    folder = options.value("output-directory")
    if "/" in suffix or UNRESOLVED in suffix:
        reading.do("write-file", suffix)
    for name in (f"git-bugreport-{suffix}.txt", f"git-diagnostics-{suffix}.zip"):
        reading.writes_below(folder, re.escape(name))


def _request_pull(reading: Reading) -> None:
    reading.looks_at_urls(reading.args)


FAMILIES = {
    "archive": _archive,
    "bugreport": _report,
    "bundle": _bundle,
    "diagnose": _report,
    "diff": _diff,
    "diff-files": _diff,
    "diff-index": _diff,
    "diff-tree": _diff,
    "difftool": _difftool,
    "format-patch": _format_patch,
    "grep": _grep,
    "interpret-trailers": _interpret_trailers,
    "log": _diff,
    "mailinfo": _mailinfo,
    "mailsplit": _mailsplit,
    "range-diff": _diff,
    "request-pull": _request_pull,
    "show": _diff,
}
