"""Commands that read, or export what is there: difftool, grep, archive; and the files that git writes because its
command line names them (`option_table.WRITES`): one rule for all commands.

Whatever looks like such an option counts, even if git reads it otherwise (`--grep --output=x`): a file that does not
exist, or is empty, is no loss.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from git_agentos.guard.call import UNKNOWN
from git_agentos.guard.policy import harmless_programs, options
from git_agentos.guard.policy.analysis import Analysis, ReadOnly
from git_agentos.guard.policy.option_table import EVERYWHERE, SPECS, WRITES

# The message files that git is about to use: a hook may edit them.
_MESSAGES = ("COMMIT_EDITMSG", "MERGE_MSG", "SQUASH_MSG", "TAG_EDITMSG")
# git changes to the top of the worktree first; in some versions these commands take the name from there.
_FROM_TOP = ("fast-export", "interpret-trailers", "read-tree")
_VALUED, _FOLDER = "=", "/"


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
    """A command that only writes the files that are named (`add_written_files`)."""


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


# -- written files -----------------------------------------------------------------------------------------------------


def add_written_files(analysis: Analysis) -> None:
    """Add all files that the command line names to be written."""
    command, args = analysis.command, list(analysis.args)
    if args and f"{command} {args[0]}" in WRITES:
        command, args = f"{command} {args[0]}", args[1:]
    if command == "credential-store" and not {"store", "erase"} & set(args):
        return  # it reads the file
    tokens = f"{WRITES.get(command, '')} {EVERYWHERE}".split()
    for name in _files(tokens, args):
        if command != "index-pack" or not analysis.facts.in_objects(name):
            _writes(analysis, name)
    for token in tokens:
        if token.startswith("@"):
            _operands(analysis, command, args, token)
    if any(token.endswith(_FOLDER) for token in tokens):
        _into_folder(analysis, command, tokens, args)


def _writes(analysis: Analysis, name: str, *, after_checkpoint: bool = False) -> None:
    analysis.add_written_file(name, after_checkpoint=after_checkpoint)
    root = analysis.facts.root
    if analysis.command in _FROM_TOP and root is not None and root != os.path.realpath(analysis.facts.folder):
        analysis.add_written_file(os.path.join(root, name) if name else name, after_checkpoint=after_checkpoint)


def _files(tokens: Sequence[str], args: Sequence[str], kind: str = _VALUED) -> Iterator[str]:
    """The values of the options of this kind."""
    names = [token[:-1] for token in tokens if token.endswith(kind)]
    words = list(args[: args.index("--")] if "--" in args else args)
    for n, word in enumerate(words):
        after = "".join(args[n + 1 : n + 2])
        if word.startswith("--"):
            given, equals, value = word.partition("=")
            if len(given) > 2 and any(f"--{name}".startswith(given) for name in names if len(name) > 1):
                yield value if equals else after
        elif word.startswith("-"):
            for name in names:
                if len(name) == 1 and name in word[1:]:
                    yield word[1:].partition(name)[2] or after


def _operands(analysis: Analysis, command: str, args: Sequence[str], token: str) -> None:
    """Add the operands that are written."""
    found = options.parse(options.spec(command), args) if command in SPECS else None
    operands = found.operands if found is not None else tuple(word for word in args if not word.startswith("-"))
    if found is not None and command == "interpret-trailers" and not found.has("in-place"):
        return
    if found is not None and command == "merge-file" and found.has("stdout", "object-id"):
        return
    first, _, ending = token.removeprefix("@").partition(".")
    for name in operands[: int(first)] if first else operands:
        if command == "index-pack":
            # git can rebuild the index of a pack.
            analysis.add_written_file(os.path.splitext(name)[0] + "." + ending, after_checkpoint=True)
        elif command != "interpret-trailers" or os.path.basename(name) not in _MESSAGES:
            _writes(analysis, name, after_checkpoint=command == "merge-file")


def _into_folder(analysis: Analysis, command: str, tokens: Sequence[str], args: Sequence[str]) -> None:
    """Add files in a folder, by the names that the command gives them."""
    folder = next(reversed(list(_files(tokens, args, _FOLDER))), "")
    if command == "mailsplit":
        analysis.add_files_in(folder, r"\d+")
    elif command == "format-patch":
        _patches(analysis, folder)
    else:
        _report(analysis, folder)


def _patches(analysis: Analysis, folder: str) -> None:
    found = options.parse(options.spec("format-patch"), analysis.args)
    if not found.has("stdout", "output"):
        # The names begin with a number; the same patches overwrite their earlier files.
        folder = folder or analysis.facts.config("format.outputdirectory") or ""
        analysis.add_files_in(folder, r"(v[^-]*-)?\d+(-.*)?", after_checkpoint=True)


def _report(analysis: Analysis, folder: str) -> None:
    """bugreport and diagnose write a new file, named after the time or as an option says."""
    suffix = options.parse(options.spec("bugreport"), analysis.args).value("suffix")
    if "/" in suffix or UNKNOWN in suffix:
        analysis.add("write-file", suffix)
    for name in (f"git-bugreport-{suffix}.txt", f"git-diagnostics-{suffix}.zip"):
        analysis.add_files_in(folder, re.escape(name))
