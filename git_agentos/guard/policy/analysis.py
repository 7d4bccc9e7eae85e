"""The analysis of one git command line: what it does, filled in by the function that reads its subcommand."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence

from git_agentos.guard import ownership
from git_agentos.guard.call import UNKNOWN
from git_agentos.guard.decision import Operation, SaveScope
from git_agentos.guard.ownership import Caller
from git_agentos.guard.paths import is_device, is_really_below, leads_through_a_process
from git_agentos.guard.policy import config_keys, harmless_programs, options
from git_agentos.guard.policy.facts import Facts
from git_agentos.guard.policy.options import Options
from git_agentos.guard.policy.own_work import NO_EARLIER_COMMANDS, BranchMove, EarlierCommands, OwnWork

# These change a worktree: its files, its index, what it has checked out, or its own configuration. Stash entries belong
# to the worktree that pushed them, branches and tags to all.
_CHANGES_WORKTREE = frozenset(
    "add commit stash stash-apply stash-other switch revert apply reset-index checkout-paths remove move abort "
    "continue bisect submodule-update sparse-widen config-set merge rebase cherry-pick pull am commit-amend reset-soft "
    "reset-mixed reset-hard reset-merge reset-keep skip remove-force move-force clean clean-interactive clean-unforced "
    "checkout-merge checkout-conflict checkout-interactive checkout-force checkout-dirty switch-shared index-rewrite "
    "index-flags submodule-change submodule-force read-tree checkout-index sparse-checkout branch-reset symbolic-ref "
    "config-guard".split()
)


class ReadOnly(Exception):
    """Raised for a command line that changes nothing, apart from programs that it names and files that it writes: help,
    a dry run."""


class Analysis:
    """What a command does, what must be saved before it, and what other commands it runs.

    `shell_texts` are shell texts, `commands` command lines. `unsavable`: something would be lost that no checkpoint
    holds. `caller` is who gives the command, None where that makes no difference; `own` answers what is the caller's
    own. `moves` are the branches that the command is about to move, if git has said so (`reference-transaction`).
    `moves_head`: HEAD may be elsewhere afterwards, though no operation says so.
    """

    def __init__(
        self,
        command: str,
        args: Sequence[str],
        facts: Facts,
        caller: Caller | None = None,
        moves: Sequence[BranchMove] = (),
        before: EarlierCommands = NO_EARLIER_COMMANDS,
    ) -> None:
        self.command = command
        self.args = tuple(args)
        self.facts = facts
        self.caller = caller
        self.own = OwnWork(facts, caller, before)
        self.moves = moves
        self.moves_head = False
        self.operations: list[Operation] = []
        self.shell_texts: list[str] = []
        self.commands: list[tuple[str, ...]] = []
        self.needs_checkpoint = False
        self.unsavable = False
        self.ignored: set[bytes] = set()
        self.everything_ignored = False
        self.commits: list[str] = []
        self._touches: set[bytes] | None = set()

    def add(self, name: str, subject: str = "", own: bool = False, limited: bool = False) -> None:
        """Add an operation (`decision.Operation`)."""
        self.operations.append(Operation(name, subject.replace(UNKNOWN, "…"), own, limited))

    def add_unknown_subcommand(self, words: str) -> None:
        """Add a subcommand of a subcommand that is not known to the guard."""
        self.add("unresolved" if UNKNOWN in words else "unknown-command", words)

    def add_protected_branch(self) -> None:
        """Add that the command moves the branch that is checked out, if that branch is protected."""
        if self.facts.protected and self.facts.branch is not None:
            self.add_protected([self.facts.branch])

    def add_protected(self, branches: Iterable[str]) -> None:
        """Add those of the branches that are protected."""
        for branch in branches:
            if self.facts.is_protected(branch):
                self.add("protected-branch", branch)

    def add_branch_move(
        self, name: str, subject: str = "", *, to: str | None, keeps: Sequence[str] | None = None, limited: bool = True
    ) -> None:
        """Add an operation that moves the branch that is checked out to the revision `to` (None if that is not known),
        and the commits that the branch leaves. It keeps those that `keeps` reach, by default those that `to` reaches.
        """
        if to is not None:
            to = self.own.before_earlier_commands(to)
            keeps = [to] if to is not None else None
        self.require_checkpoint(commits=self.facts.unreferenced_head(to), touches=())
        if self.moves:
            own = all(self._may_move(move) for move in self.moves)
            is_limited = limited and all(self.own.gains_only_own(*move[1:]) for move in self.moves if to is not None)
        else:
            own = keeps is not None and self.own.loses_only_own("HEAD", keeps)
            is_limited = limited and own and (to is None or self.own.gains_only_own("HEAD", to))
        self.add(name, subject, own, is_limited)

    def _may_move(self, move: BranchMove) -> bool:
        """Whether a branch is the one that the command works on, or the agent's, and loses no commits of others."""
        short = move.name.removeprefix("refs/heads/")
        is_own = short in (self.facts.branch, self.own.rebased) or self.own.is_own_branch(short)
        return is_own and self.own.loses_only_own(move.old, [move.new], [move.name])

    def is_named(self, paths: Sequence[str]) -> bool:
        """Whether a command's paths name some files or folders of the worktree, and not all of it."""
        root = self.facts.root
        return bool(paths) and root is not None and all(self._is_part(path, root) for path in paths)

    def _is_part(self, path: str, root: str) -> bool:
        if path.startswith(":") or UNKNOWN in path or not path.strip("*?/."):
            return False
        whole = os.path.normpath(os.path.join(os.path.realpath(self.facts.folder), path))
        return not is_really_below(root, whole) and whole != root

    def require_checkpoint(
        self,
        *,
        ignored: Iterable[bytes] = (),
        commits: Iterable[str] = (),
        everything_ignored: bool = False,
        touches: Sequence[str] | None = None,
    ) -> None:
        """The state must be saved first, with what is given here. `touches` are the paths that the command may change;
        None: any."""
        self.needs_checkpoint = True
        ignored = frozenset(ignored)
        self.ignored |= ignored
        self.commits.extend(commits)
        self.everything_ignored |= everything_ignored
        known = None if touches is None else self._from_root(touches)
        if known is None or self._touches is None:
            self._touches = None
        else:
            self._touches |= known | ignored

    def keep_commits(
        self, *refs: str, head: bool = False, new: str | None = None, touches: Sequence[str] | None = None
    ) -> None:
        """The state must be saved first, with the commits that only these refs (full names) reach."""
        self.require_checkpoint(commits=self.facts.unreachable_without(refs, head=head, new=new), touches=touches)

    def _from_root(self, paths: Sequence[str]) -> set[bytes] | None:
        """Paths of the command line, relative to the root; None if one can stand for any."""
        root = self.facts.root
        if root is None or any(not self.is_named([path]) or set("*?[") & set(path) for path in paths):
            return None
        folder = os.path.realpath(self.facts.folder)
        return {os.fsencode(os.path.relpath(os.path.normpath(os.path.join(folder, path)), root)) for path in paths}

    @property
    def save_scope(self) -> SaveScope | None:
        """What must be saved; None if nothing must be."""
        if not self.needs_checkpoint:
            return None
        touches = None if self._touches is None else frozenset(self._touches)
        return SaveScope(frozenset(self.ignored), self.everything_ignored, tuple(self.commits), touches=touches)

    def options(
        self, name: str | None = None, args: Sequence[str] | None = None, *, stop: bool = False, paths: bool = False
    ) -> Options:
        """Parse the options by the table's row `name`; ReadOnly for a request for help.

        With `paths`, all operands are paths, so it does not matter which ones they are.
        """
        found = options.parse(options.spec(name or self.command), self.args if args is None else args, stop=stop)
        if found.help:
            raise ReadOnly
        for word in found.unknown:
            self.add("unknown-option", word)
        if found.unresolved and not (paths and not any(word.startswith("-") for word in self._hidden(args))):
            self.add("unresolved")
        return found

    def _hidden(self, args: Sequence[str] | None) -> list[str]:
        return [word for word in (self.args if args is None else args) if UNKNOWN in word and "=" not in word]

    def keep_only_programs(self) -> None:
        """Remove what was added, apart from programs that the command runs in any case (a dry run of a push starts its
        transport). Files that it writes are added after this (`commands.output`)."""
        self.operations[:] = [each for each in self.operations if each.name == "run-command"]
        self.shell_texts.clear()
        self.commands.clear()
        self.needs_checkpoint = self.everything_ignored = False
        self.ignored.clear()
        self.commits.clear()
        self._touches = set()
        self.add_url_programs(self.args)

    def add_shell_text(self, text: str) -> None:
        """Add shell text that the command line gives git to run, unless it is plainly harmless."""
        command = config_keys.unsafe_command(text)
        if command is not None:
            self.shell_texts.append(command)

    def add_program(self, text: str, role: str) -> None:
        """Add a program that git runs as `role` (`harmless_programs`), unless it changes nothing in that role."""
        if not harmless_programs.is_harmless(text, role):
            self.add("run-command", text)
            self.shell_texts.append(text)

    def add_written_file(self, name: str, *, after_checkpoint: bool = False) -> None:
        """Add a file that is overwritten; a new or empty file loses nothing. With `after_checkpoint`, overwriting a
        file of the worktree needs no approval, since it is saved first."""
        if UNKNOWN in name:
            self.add("unresolved", name)
        elif not name or name == "-" or is_device(name):
            return
        elif self.facts.in_git_dir(name):
            self.add("git-dir-write", name)
        elif leads_through_a_process(name) or self.facts.is_nonempty(name):
            inside = self.facts.is_in_worktree(name)
            if not (inside and after_checkpoint):
                hidden = leads_through_a_process(name)
                self.add("write-file" if inside or hidden else "file-outside", name, limited=inside and not hidden)
            if inside:
                # A file that is named is saved even if it is ignored or large.
                self.require_checkpoint(ignored=self.facts.from_root(name), touches=[name])

    def add_files_in(self, folder: str, pattern: str, *, after_checkpoint: bool = False) -> None:
        """Add the files of a folder that are overwritten: those whose names match `pattern`."""
        if UNKNOWN in folder:
            self.add("unresolved", folder)
        elif self.facts.in_git_dir(folder or "."):
            self.add("git-dir-write", folder)
        else:
            for name in self.facts.names_in(folder or "."):
                if re.fullmatch(pattern, name):
                    self.add_written_file(os.path.join(folder, name), after_checkpoint=after_checkpoint)

    def add_url_programs(self, words: Iterable[str]) -> None:
        """Add URLs that make git run a program (git-remote-ext(1), git-remote-fd(1))."""
        for word in words:
            if word.partition("::")[0] in ("ext", "fd") and "::" in word:
                self.add("run-command", word)

    def changes_other_worktree(self) -> bool:
        """Whether the command changes a worktree that is not the caller's own."""
        names = {operation.name for operation in self.operations} - {"look"}
        changes = not names.isdisjoint(_CHANGES_WORKTREE) or (bool(names) and self.command in ("switch", "checkout"))
        return (
            changes
            and self.caller is not None
            and self.caller.identity.agent is not None
            and any(ownership.is_others(self.caller, each) for each in self.facts.changed_worktrees)
        )
