"""Commands that read, or export what is there: difftool, grep, archive. See `written_files` for the files
they write."""

from __future__ import annotations

from git_agentos.guard.call import UNKNOWN
from git_agentos.guard.policy import harmless_programs
from git_agentos.guard.policy.analysis import Analysis, ReadOnly


def _archive(analysis: Analysis) -> None:
    options = analysis.options(paths=True)
    for text in options.given.get("exec", ()):
        analysis.add("run-command", text)
    analysis.add_url_programs([options.value("remote")])


def _bundle(analysis: Analysis) -> None:
    which, args = (analysis.args[0], analysis.args[1:]) if analysis.args else ("", ())
    if which == "create":
        analysis.options("bundle create", args, paths=True)
        analysis.add("objects")
    elif which == "unbundle":
        analysis.add("objects")
    elif which in ("verify", "list-heads", "-h", "--help"):
        raise ReadOnly
    else:
        analysis.add("unknown-command", f"bundle {which}")


def _grep(analysis: Analysis) -> None:
    options = analysis.options("grep", paths=True)
    analysis.operations[:] = []  # git itself rejects unknown options
    for text in options.given.get("open-files-in-pager", ()):
        analysis.add_program(text, harmless_programs.VIEWER)
        variable = analysis.facts.variable("GIT_PAGER") or analysis.facts.variable("PAGER")
        if not text and variable:
            # A pager in the environment is given files here.
            analysis.add_program(variable, harmless_programs.VIEWER)


def _difftool(analysis: Analysis) -> None:
    options = analysis.options("difftool", paths=True)
    analysis.operations[:] = []  # its other options are those of diff
    for text in options.given.get("extcmd", ()):
        analysis.add_program(text, harmless_programs.VIEWER)
    for name in (*options.given.get("tool", ()), analysis.facts.variable("GIT_DIFF_TOOL")):
        if "/" in name or UNKNOWN in name:
            # git runs a tool from a folder of its own; with a slash in its name, from any folder.
            analysis.add("run-command", name)


def _request_pull(analysis: Analysis) -> None:
    analysis.add_url_programs(analysis.args)


def _writes_only(analysis: Analysis) -> None:
    """A command that only writes the files that are named (`written_files`)."""


HANDLERS = {
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
