"""The branch of a remote that a local branch or a remote-tracking branch follows, and fetching it in a limited time."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping

from git_agentos.errors import GitCommandError
from git_agentos.git import process
from git_agentos.git.location import Location
from git_agentos.process import programs
from git_agentos.util import files
from git_agentos.util.named_tuple import NamedTuple

_HEADS = "refs/heads/"
_REMOTES = "refs/remotes/"
_FETCH = (
    "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--no-recurse-submodules",
)  # fmt: skip
_LONGEST = 1 << 20
# Nobody is there to be asked for a password: git and ssh fail instead. Helpers and agents that know it still answer.
_NO_QUESTIONS = {"SSH_ASKPASS": "", "SSH_ASKPASS_REQUIRE": "never", "GCM_INTERACTIVE": "never"}


class RemoteBranch(NamedTuple):
    """The branch `ref` of `remote` (full name there), and the ref that has it here as it was fetched."""

    remote: str
    ref: str
    tracking: str

    @property
    def name(self) -> str:
        """What users call it: `origin/main`."""
        return self.tracking.removeprefix(_REMOTES)


def followed_by(location: Location, values: Mapping[str, list[str]], ref: str) -> RemoteBranch | None:
    """The branch of a remote that a ref (full name) follows; None where it follows none, or only one of here. `values`
    is git's configuration."""
    remotes = [key.removeprefix("remote.").removesuffix(".url") for key in values if _is_url_of_remote(key)]
    if ref.startswith(_HEADS):
        form = "%(upstream:remotename)%00%(upstream:remoteref)%00%(upstream)"
        # git gives all refs below a name, too.
        out = process.run(["for-each-ref", f"--format=%(refname)%00{form}", ref], env=location.environment())
        rows = (line.split("\0") for line in os.fsdecode(out).split("\n"))
        found = next((row[1:] for row in rows if row[0] == ref and len(row) == 4), None)
        return RemoteBranch(*found) if found is not None and found[0] in remotes and all(found) else None
    return next(_tracked_by(ref, remotes, values), None)


def _is_url_of_remote(key: str) -> bool:
    return key.startswith("remote.") and key.endswith(".url")


def _tracked_by(ref: str, remotes: Iterable[str], values: Mapping[str, list[str]]) -> Iterator[RemoteBranch]:
    """The branches of remotes that are fetched to `ref`."""
    for remote in remotes:
        for refspec in values.get(f"remote.{remote}.fetch", ()):
            theirs, _, ours = refspec.removeprefix("+").partition(":")
            before, star, after = ours.partition("*")
            if star and ref.startswith(before) and ref.endswith(after):
                middle = ref[len(before) : len(ref) - len(after)]
                yield RemoteBranch(remote, theirs.replace("*", middle, 1), ref)
            elif ref == ours:
                yield RemoteBranch(remote, theirs, ref)


def fetch(location: Location, branch: RemoteBranch, *, timeout: float) -> None:
    """Fetch one branch, with the user's credentials and settings, and without hooks; GitCommandError where that fails,
    or takes longer than `timeout` seconds."""
    args = [*process.FIXED_CONFIG, *_FETCH, "--", branch.remote, branch.ref]
    env = location.environment(_NO_QUESTIONS)
    git = process.program(env.get("PATH", os.defpath)) or "git"
    ended = programs.run([git, *args], cwd=location.root, env=env, timeout=timeout)
    if ended.timed_out:
        raise GitCommandError(f"'{branch.remote}' did not answer within {timeout:g} seconds", status=-1, stderr="")
    if ended.code != 0:
        raise process.failure(args, ended.code or 1, ended.output)


def last_fetched(location: Location, git_dirs: Iterable[str], branch: RemoteBranch) -> float:
    """When a `git fetch` in one of the worktrees has last brought the branch, in seconds since the epoch; 0 where that
    is not known."""
    wanted = os.fsencode(f"branch '{branch.ref.removeprefix(_HEADS)}' of ")
    newest = 0.0
    for git_dir in (location.common_dir, *git_dirs):
        path = os.path.join(git_dir, "FETCH_HEAD")
        try:
            if wanted in files.read(path, limit=_LONGEST):
                newest = max(newest, os.stat(path).st_mtime)
        except OSError:
            continue
    return newest
