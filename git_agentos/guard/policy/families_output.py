"""Commands that look, or pack up what is there: difftool, grep, archive. What files they write: see `outputs`."""

from __future__ import annotations

from git_agentos.guard.policy import harmless
from git_agentos.guard.policy.options import UNRESOLVED
from git_agentos.guard.policy.reading import OnlyLooks, Reading


def _archive(reading: Reading) -> None:
    options = reading.options(paths=True)
    for text in options.given.get("exec", ()):
        reading.do("run-command", text)
    reading.looks_at_urls([options.value("remote")])


def _bundle(reading: Reading) -> None:
    which, args = (reading.args[0], reading.args[1:]) if reading.args else ("", ())
    if which == "create":
        reading.options("bundle create", args, paths=True)
        reading.do("objects")
    elif which == "unbundle":
        reading.do("objects")
    elif which in ("verify", "list-heads", "-h", "--help"):
        raise OnlyLooks
    else:
        reading.do("unknown-command", f"bundle {which}")


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
    for text in options.given.get("extcmd", ()):
        reading.runs_program(text, harmless.VIEWER)
    for name in (*options.given.get("tool", ()), reading.facts.variable("GIT_DIFF_TOOL")):
        if "/" in name or UNRESOLVED in name:
            # A tool is a file in a folder of git's own, or by such a name in any other.
            reading.do("run-command", name)


def _request_pull(reading: Reading) -> None:
    reading.looks_at_urls(reading.args)


def _writes_only(reading: Reading) -> None:
    """A command that does nothing but write the files that are named (`outputs`)."""


FAMILIES = {
    "archive": _archive,
    "bugreport": _writes_only,
    "bundle": _bundle,
    "diagnose": _writes_only,
    "difftool": _difftool,
    "format-patch": _writes_only,
    "grep": _grep,
    "interpret-trailers": _writes_only,
    "mailinfo": _writes_only,
    "mailsplit": _writes_only,
    "request-pull": _request_pull,
}
