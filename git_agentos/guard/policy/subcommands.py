"""A subcommand -> its operations. This module knows which function reads which subcommand, and the simple ones.

The functions are in `commands`, one module for each group of subcommands. Each is given an `Analysis`, asks its facts
what it has to know, and adds operations. Nothing is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from git_agentos.guard.policy.analysis import Analysis, ReadOnly
from git_agentos.guard.policy.commands import agentos, files, history, output, refs, remote, stash, store
from git_agentos.guard.policy.option_table import WRITES

Handler = Callable[[Analysis], None]

_READ_ONLY = frozenset(
    "annotate blame cat-file check-attr check-ignore check-mailmap check-ref-format cherry column "
    "count-objects describe diff-pairs env--helper fast-export fmt-merge-msg for-each-ref fsck fsck-objects "
    "get-tar-commit-id help last-modified ls-files ls-tree merge-base name-rev pack-redundant patch-id "
    "rev-list rev-parse shortlog show-branch show-index show-ref status stripspace upload-archive upload-pack var "
    "verify-commit verify-pack verify-tag version whatchanged pickaxe unpack-file "
    "gitk gitweb url-parse format-rev sh-i18n--envsubst "
    "diff diff-files diff-index diff-tree log range-diff show".split()
)
_SIMPLE: Mapping[str, str] = {
    **dict.fromkeys(
        "commit-graph commit-tree hash-object index-pack mktag mktree pack-objects unpack-objects write-tree "
        "update-server-info merge-tree".split(),
        "objects",
    ),
    **dict.fromkeys("pack-refs prune-packed".split(), "gc"),
    **dict.fromkeys(
        "merge-index merge-octopus merge-one-file merge-ours merge-recursive merge-recursive-ours "
        "merge-recursive-theirs merge-resolve merge-subtree subtree".split(),
        "merge",
    ),
    **dict.fromkeys("quiltimport".split(), "am"),
    **dict.fromkeys(
        "imap-send instaweb daemon http-backend shell remote-http remote-https remote-ftp remote-ftps".split(), "send"
    ),
    **dict.fromkeys(
        "gui citool mergetool mergetool--lib web--browse add--interactive difftool--helper checkout--worker "
        "upload-archive--writer".split(),
        "tool",
    ),
    **dict.fromkeys("remote-ext remote-fd".split(), "run-command"),
    **dict.fromkeys("credential-cache--daemon".split(), "credential"),
    **dict.fromkeys("http-fetch backfill".split(), "fetch"),
    **dict.fromkeys("archimport cvsexportcommit cvsimport cvsserver scalar".split(), "foreign"),
    **dict.fromkeys("receive-pack http-push".split(), "push"),
}
_HANDLERS: Mapping[str, Handler] = {
    **files.HANDLERS,
    **stash.HANDLERS,
    **refs.HANDLERS,
    **history.HANDLERS,
    **remote.HANDLERS,
    **output.HANDLERS,
    **store.HANDLERS,
    **agentos.HANDLERS,
}
# Programs of their own, and subcommands added after git 2.38: if they are missing, an alias may have their name.
_MAY_BE_ALIAS = frozenset(
    "lfs svn p4 filter-repo subtree gui citool gitk gitweb send-email instaweb imap-send quiltimport archimport "
    "cvsexportcommit cvsimport cvsserver last-modified repo replay history refs backfill url-parse format-rev "
    "diff-pairs agentos agentos-checkpoint agentos-restore agentos-rollback agentos-worktree agentos-tdd request-pull "
    "filter-branch mergetool difftool bisect submodule web--browse".split()
)


def is_known(command: str) -> bool:
    """Whether a subcommand is known here."""
    return command in _READ_ONLY or command in _SIMPLE or command in _HANDLERS


def may_be_alias(command: str) -> bool:
    """Whether an alias of this name could be run: git's own commands cannot be aliased."""
    return not is_known(command) or command in _MAY_BE_ALIAS


def only_reads(command: str, args: Sequence[str]) -> bool:
    """Whether the command line alone shows that it changes nothing: the subcommand only reads, and names no file to
    write and no program to run."""
    return (
        command in _READ_ONLY
        and command not in WRITES
        and not any(word.startswith("--o") or "::" in word for word in args)
    )


def read(analysis: Analysis) -> None:
    """Add what a command line does; at least one operation."""
    command, args = analysis.command, analysis.args
    if args[:1] == ("--help",) or args in (("-h",), ("--help-all",)):
        analysis.add("look")
        return
    try:
        if command in _READ_ONLY:
            raise ReadOnly
        if command in _SIMPLE:
            if command == "subtree" and args[:1] == ("split",):
                raise ReadOnly
            analysis.add(_SIMPLE[command])
        elif command in _HANDLERS:
            _HANDLERS[command](analysis)
        else:
            analysis.add("unknown-command", command)
    except ReadOnly:
        analysis.keep_only_programs()
    output.add_written_files(analysis)
    if not (analysis.operations or analysis.shell_texts or analysis.commands):
        analysis.add("look")
