"""Refs of a remote: listed, fetched and pushed by git's own transports, with the user's credentials and settings.

What a remote says is data: names and values come back as they were sent, and are for the caller to check. Nothing is
forced but by `swap`, which names the values that it replaces; no tag or branch follows, submodules are left alone, and
no hook of this repository runs. git's progress is given to `output`, line by line.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Mapping, Sequence

from git_agentos.errors import RepositoryError
from git_agentos.git import process
from git_agentos.git.location import Location
from git_agentos.git.quarantine import Quarantine
from git_agentos.util.named_tuple import NamedTuple

Output = Callable[[str], None]

WHOLE = 0x7FFFFFFF  # the depth that git takes for no limit, in a repository that is not shallow as well
_MOST_REFS = 200_000
# Against settings of the user that would add to what is pushed or fetched, or refuse it.
_PUSH = ("--porcelain", "--progress", "--no-verify", "--no-follow-tags", "--recurse-submodules=no", "--no-signed")
# In a partial clone, everything is fetched: checkpoints are restored where there is no network, too.
_FETCH = (
    "--progress", "--no-filter", "--no-tags", "--no-prune", "--no-write-fetch-head", "--no-auto-maintenance",
    "--refmap=", "--recurse-submodules=no", "--stdin",
)  # fmt: skip
_REJECTED = "!"


class Update(NamedTuple):
    """A ref of the remote that is to be set to `new`, which descends from its value; None deletes it if it is `old`."""

    name: str
    new: str | None
    old: str | None = None


class Swap(NamedTuple):
    """A ref of the remote that is to be set to `new` (None: deleted) if it is at `old` (None: does not exist)."""

    name: str
    new: str | None
    old: str | None


def list_refs(location: Location, remote: str) -> dict[str, str]:
    """Name -> oid of all refs of a remote; RepositoryError where it lists more than could be meant."""
    args = ["ls-remote", "--quiet", "--", remote]
    # Messages come in the same pipe: so neither of two can be full while the other one is read.
    child = process.spawn(args, cwd=location.root, env=location.environment(), stderr=subprocess.STDOUT)
    assert child.stdout is not None
    found: dict[str, str] = {}
    said = b""
    try:
        while line := child.stdout.readline(process.LONGEST_LINE):
            oid, tab, name = line.rstrip(b"\n").partition(b"\t")
            if tab and location.hash.is_oid(oid.decode("ascii", "replace")):
                found[name.decode("utf-8", "surrogateescape")] = oid.decode("ascii")
            else:
                said = (said + line)[-process.KEPT :]
            if len(found) > _MOST_REFS:
                raise RepositoryError(f"the remote '{remote}' lists more refs than git-agentos reads ({_MOST_REFS})")
    except BaseException:
        child.kill()
        raise
    finally:
        child.stdout.close()
        status = child.wait()
    if status != 0:
        raise process.failure(args, status, said)
    return found


def fetch(
    location: Location, remote: str, names: Sequence[str], output: Output, quarantine: Quarantine | None = None
) -> None:
    """Fetch what refs of a remote reach. No ref changes here; GitCommandError if one of them cannot be fetched.

    With a `quarantine`, the objects are there afterwards. The remote is told of its boundary, and leaves out what is
    behind that.
    """
    _fetch(location, remote, names, output, quarantine=quarantine)


def mirror(location: Location, remote: str, folders: Mapping[str, str], output: Output) -> None:
    """Make the refs below folders here (which end with a slash) what those below others of a remote are: folder of the
    remote -> folder here, which must be nobody else's. What is gone there is deleted here.

    No wait for a lock of a ref: GitCommandError where another process changes the same ones.
    """
    _fetch(location, remote, [f"+{theirs}*:{ours}*" for theirs, ours in folders.items()], output, "--prune")


def fetch_into(
    location: Location, remote: str, refs: Mapping[str, str], output: Output, depth: int | None = None
) -> None:
    """Fetch refs of a remote into refs here, whatever these are at: name there -> name here. GitCommandError where one
    of them does not exist.

    With `depth`, only so many commits of the history of each: the last ones are a boundary of the repository, which is
    shallow from then on. With WHOLE, all of it, also what a boundary cuts off here.
    """
    options = [] if depth is None else [f"--depth={depth}"]
    _fetch(location, remote, [f"+{theirs}:{ours}" for theirs, ours in refs.items()], output, *options)


def _fetch(
    location: Location,
    remote: str,
    specs: Sequence[str],
    output: Output,
    *options: str,
    quarantine: Quarantine | None = None,
) -> None:
    args = ["fetch", *_FETCH, *options, "--", remote]
    child = process.spawn(args, cwd=location.root, env=_environment(location, quarantine), stdin=process.PIPE)
    assert child.stdin is not None
    try:
        child.stdin.write("".join(f"{spec}\n" for spec in specs).encode("utf-8", "surrogateescape"))
        child.stdin.close()
    except BrokenPipeError:
        pass  # its exit code shows the error
    status, _, err = process.finish_shown(child, output)
    if status != 0:
        raise process.failure(args, status, err)


def push(
    location: Location, remote: str, updates: Sequence[Update], output: Output, quarantine: Quarantine | None = None
) -> Mapping[str, str | None]:
    """Push: the name of each ref that the remote has answered for -> None if it is set, else the reason why not. The
    objects may be in a `quarantine`.

    GitCommandError where there is no answer for any of them.
    """
    leases = [_lease(each) for each in updates if each.new is None]
    return _push(location, remote, [*leases], updates, output, quarantine)


def swap(location: Location, remote: str, changes: Sequence[Swap], output: Output) -> Mapping[str, str | None]:
    """Set refs, all or none of them; the answers as of `push`. Where a ref is not at its old value, all are refused.

    The remote may have done it where there is no answer, and where the answer is that the connection broke.
    """
    return _push(location, remote, ["--atomic", *(_lease(each) for each in changes)], changes, output, None)


def _lease(change: Update | Swap) -> str:
    return f"--force-with-lease={change.name}:{change.old or ''}"


def _push(
    location: Location,
    remote: str,
    options: Sequence[str],
    changes: Sequence[Update | Swap],
    output: Output,
    quarantine: Quarantine | None,
) -> Mapping[str, str | None]:
    specs = [f"{each.new or ''}:{each.name}" for each in changes]
    # A mirror takes no single refs, and not every server takes the user's push options.
    settings = ["-c", f"remote.{remote}.mirror=false", "-c", "push.pushOption="]
    args = [*settings, "push", *_PUSH, *options, "--", remote, *specs]
    child = process.spawn(args, cwd=location.root, env=_environment(location, quarantine))
    status, out, err = process.finish_shown(child, output)
    answers = _answers(out)
    if status != 0 and not answers:
        raise process.failure(args, status, err)
    return answers


def _environment(location: Location, quarantine: Quarantine | None) -> dict[str, str]:
    return location.environment({} if quarantine is None else quarantine.environment)


def _answers(out: bytes) -> dict[str, str | None]:
    """The lines of `push --porcelain`: flag, refs, and a summary with the reason in brackets (git-push(1))."""
    found: dict[str, str | None] = {}
    for line in out.decode("utf-8", "surrogateescape").split("\n"):
        flag, tab, rest = line.partition("\t")
        if not tab or len(flag) != 1:
            continue
        spec, _, summary = rest.partition("\t")
        name = spec.partition(":")[2]
        reason = re.fullmatch(r"\[[^]]*\] \((.*)\)", summary)
        found[name] = None if flag != _REJECTED else reason[1] if reason else summary
    return found
