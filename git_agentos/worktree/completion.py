"""`worktree complete`: a last checkpoint, and a merge request for the reviewer. The worktree stays."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from shlex import quote

from git_agentos import log
from git_agentos.checkpoint import format, timeline
from git_agentos.checkpoint.creation import create_checkpoint
from git_agentos.checkpoint.model import Checkpoint
from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.errors import GitCommandError, UsageError, WorktreeError, converted_storage_errors
from git_agentos.git import process, refs, user_hooks, worktrees
from git_agentos.guard import authorize
from git_agentos.guard.configuration import settings
from git_agentos.process import programs
from git_agentos.sync import automatic
from git_agentos.util import times
from git_agentos.util.values import count
from git_agentos.worktree import agent_branch, journal, layout, record, removal_checks
from git_agentos.worktree.record import Record

_MAX_FILES = 200
_MAX_CHECKPOINTS = 50
_FORGE_TIMEOUT = 120.0  # seconds


@dataclass(frozen=True)
class Commit:
    """A commit of the work: its id and subject."""

    id: str
    subject: str


@dataclass(frozen=True)
class Change:
    """A file that the work changed, and by how many lines (None for a binary file)."""

    path: str
    added: int | None
    removed: int | None


@dataclass(frozen=True)
class Completion:
    """A worktree whose task is done: the JSON kind `worktree-complete`."""

    id: str  # of the worktree
    path: str  # its root
    branch: str  # short
    base_ref: str  # what it was created from
    base_sha: str  # the commit that it was created from
    head_sha: str  # HEAD's commit
    task: str | None  # from the caller
    checkpoint: str  # the final one
    title: str  # the heading of `document`
    commits: list[Commit]  # newest first
    files: list[Change]  # what the commits change
    uncommitted: list[str]  # paths that no commit has; the checkpoint has them
    document: str = ""  # the merge request, in Markdown
    pushed_to: str | None = None  # the remote that has the branch
    pull_request: str | None = None  # the URL that the forge gave
    problems: list[str] = field(default_factory=list)  # what failed of `--push`


@authorize.entry("worktree", "complete")
def complete(context: OpenWorktree, id_: str | None = None, *, push: bool = False) -> Completion:
    """Create a final checkpoint of the worktree `id_` (by default that of `context`), record it as complete, and write
    its merge request.

    `push` sends the branch to its remote, and opens a pull request with `gh` or `glab` if one of them is there; what
    fails of that is reported, and the worktree is complete all the same.
    """
    if id_ is None and context.worktree_id == timeline.MAIN:
        raise UsageError("which worktree is complete?", "give its ID, or run this in it")
    wanted = id_ or context.worktree_id
    if wanted == timeline.MAIN:
        raise WorktreeError("'main' is not an agent's worktree", "give the ID of one")
    layout.check_id(wanted)
    with worktrees.lock(context.location):
        begun = journal.start(context.location, wanted, journal.COMPLETE)
    try:
        return _complete(context, wanted, push=push)
    finally:
        journal.remove(begun)


def _complete(context: OpenWorktree, id_: str, *, push: bool) -> Completion:
    worktree = record.find(context.location.common_dir, id_)
    if not os.path.isdir(worktree.root):
        raise WorktreeError(
            f"the folder of the worktree '{id_}' is missing: '{worktree.root}'", f"git agentos worktree repair {id_}"
        )
    removal_checks.check_folder(worktree)
    inner = context.in_worktree(worktree.location)
    known = worktree.record
    head = refs.read_head(inner.location)
    if head.commit is None:
        raise WorktreeError(f"nothing is committed in the worktree '{id_}'", "commit the work first")
    log.try_add(inner, "action", f"worktree {id_} complete", task_id=known.task)
    saved = _save(inner, known)
    with converted_storage_errors():
        record.write(worktree.git_dir, replace(known, state=record.COMPLETE, completed_at=times.now_text()))
    branch = head.branch or known.branch
    base = inner.repository.merge_base(known.base_commits[0], head.commit) or known.base_sha
    commits = _commits(inner, base, head.commit)
    checkpoint, uncommitted = saved
    done = Completion(
        id=id_,
        path=worktree.root,
        branch=branch,
        base_ref=known.base_ref,
        base_sha=known.base_sha,
        head_sha=head.commit,
        task=known.task,
        checkpoint=checkpoint.id,
        title=_title(known, commits),
        commits=commits,
        files=_changes(inner, base, head.commit),
        uncommitted=uncommitted,
    )
    done = replace(done, document=_document(inner, done, base))
    automatic.push_complete(inner)
    return _send(inner, known, head.branch, done) if push else done


def _save(inner: OpenWorktree, known: Record) -> tuple[Checkpoint, list[str]]:
    """The last checkpoint, and the paths that no commit has. With `agentos.auto.onTaskComplete` off, that is the newest
    one; none is created."""
    guard = settings.read(inner.location.root, inner.location.environment())
    newest = None if guard.auto_on("onTaskComplete") else timeline.newest(inner.repository, inner.worktree_id)
    if newest is None:
        metadata = inner.metadata(
            trigger="task_complete", description=f"worktree {known.id} complete", task_id=known.task
        )
        checkpoint = create_checkpoint(inner, metadata).checkpoint
        paths = {*checkpoint.staged_changes, *checkpoint.unstaged_changes, *checkpoint.untracked_files}
        return checkpoint, sorted(paths)
    dirty = sorted(os.fsdecode(path) for path in agent_branch.uncommitted(inner.location))
    return format.read(inner.repository, newest.checkpoint), dirty


def _commits(context: OpenWorktree, base: str, head: str) -> list[Commit]:
    out = context.repository.git("log", "-z", "--format=%H%x20%s", f"{base}..{head}", "--")
    rows = [os.fsdecode(row).partition(" ") for row in out.split(b"\0") if row]
    return [Commit(oid, subject) for oid, _, subject in rows]


def _changes(context: OpenWorktree, base: str, head: str) -> list[Change]:
    out = context.repository.git("diff", "--numstat", "-z", "--no-renames", "--no-ext-diff", base, head, "--")
    found = []
    for row in out.split(b"\0"):
        if row:
            added, removed, path = row.split(b"\t", 2)
            numbers = [int(number) if number.isdigit() else None for number in (added, removed)]
            found.append(Change(os.fsdecode(path), numbers[0], numbers[1]))
    return found


def _title(known: Record, commits: Sequence[Commit]) -> str:
    what = commits[0].subject if len(commits) == 1 else f"work of {known.id}"
    return f"{known.task}: {what}" if known.task else what


# -- the document --------------------------------------------------------------------------------------------------


def _document(context: OpenWorktree, done: Completion, base: str) -> str:
    """The merge request; `base` is the commit from which the work is shown."""
    begin = f"{code(done.base_ref)} at {code(done.base_sha[:12])}"
    facts = [
        *([f"- Task: {_plain(done.task)}"] if done.task else []),
        f"- Branch: {code(done.branch)} at {code(done.head_sha[:12])}, from {begin}",
        f"- Worktree of the agent {code(done.id)}: {code(context.location.root)}",
        f"- Final checkpoint: {code(done.checkpoint[:12])}",
    ]
    parts = [
        f"# {_plain(done.title)}\n\n" + "\n".join(facts),
        *_uncommitted(done),
        _changed(done),
        _checkpoints(context, done.id),
        *_entries(context, "decision", "Decisions"),
        *_entries(context, "error", "Errors"),
        _review(done, base),
    ]
    return "\n\n".join(parts) + "\n"


def _uncommitted(done: Completion) -> list[str]:
    if not done.uncommitted:
        return []
    names = _listed([code(path) for path in done.uncommitted])
    note = f"These changes are in no commit, and a merge will not have them; checkpoint {done.checkpoint[:12]} has."
    return [f"## Not committed\n\n{note}\n\n{names}"]


def _changed(done: Completion) -> str:
    if not done.commits:
        return "## Changes\n\nNothing is committed since the worktree was made."
    added = sum(each.added or 0 for each in done.files)
    removed = sum(each.removed or 0 for each in done.files)
    numbers = f"{count(len(done.commits), 'commit')}, {count(len(done.files), 'file')}, +{added} -{removed} lines"
    rows = _listed([f"{code(each.id[:12])} {_plain(each.subject)}" for each in done.commits])
    files = _listed(
        [
            code(each.path) + (" (binary)" if each.added is None else f" +{each.added} -{each.removed}")
            for each in done.files
        ]
    )
    return f"## Changes\n\n{numbers}.\n\n{rows}\n\n### Files\n\n{files}"


def _checkpoints(context: OpenWorktree, id_: str) -> str:
    rows = []
    for number, link in enumerate(timeline.walk(context.repository, id_)):
        if number == _MAX_CHECKPOINTS:
            rows.append("- and earlier ones")
            break
        one = format.read(context.repository, link.checkpoint)
        subject = one.description.split("\n", 1)[0]
        when = one.created_at[:16].replace("T", " ")
        rows.append(f"- {code(one.id[:12])} {when} {one.trigger}" + (f": {_plain(subject)}" if subject else ""))
    return "## Checkpoints\n\n" + "\n".join(rows)


def _entries(context: OpenWorktree, kind: str, heading: str) -> list[str]:
    found = log.read(context, kinds=[kind], newest_first=False)
    found.report(empty=False)
    rows = []
    for each in found.rows:
        if log.is_by_guard(each):
            continue
        rows.append(f"- {each.timestamp[:16].replace('T', ' ')} {_plain(each.summary)}")
        rows += [f"  - {_plain(key)}: {_plain(_words(value))}" for key, value in each.details.items()]
    return [f"## {heading}\n\n" + "\n".join(rows)] if rows else []


def _review(done: Completion, base: str) -> str:
    lines = [
        f"git log --oneline {base[:12]}..{quote(done.branch)}",
        f"git diff {base[:12]} {quote(done.branch)}",
        f"git agentos log review {done.id}",
        f"git agentos worktree merge {done.id} --dry-run",
        f"git agentos worktree merge {done.id}",
    ]
    return "## Review and merge\n\n```sh\n" + "\n".join(lines) + "\n```"


def _words(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(_words(each) for each in value)
    return str(value)


def _listed(rows: Sequence[str]) -> str:
    shown = [f"- {row}" for row in rows[:_MAX_FILES]]
    return "\n".join(shown + ([f"- and {len(rows) - _MAX_FILES} more"] if len(rows) > _MAX_FILES else []))


def code(text: str) -> str:
    """Text as Markdown code on one line, whatever is in it."""
    text = re.sub(r"[\x00-\x1f\x7f\ud800-\udfff]", "\N{REPLACEMENT CHARACTER}", text)
    fence = "`" * (max((len(run) for run in re.findall(r"`+", text)), default=0) + 1)
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{space}{text}{space}{fence}"


def _plain(text: str) -> str:
    """Text on one line in which nothing is Markdown or HTML."""
    text = re.sub(r"[\x00-\x1f\x7f\ud800-\udfff]+", " ", text)
    return re.sub(r"([\\`*_\[\]<>#|@])", r"\\\1", text)


# -- sending -------------------------------------------------------------------------------------------------------


def _send(context: OpenWorktree, known: Record, branch: str | None, done: Completion) -> Completion:
    """Push the branch and open a pull request: what came of it."""
    if branch is None:
        return replace(done, problems=["HEAD is detached: there is no branch to push"])
    remote = _remote(context, branch)
    if remote is None:
        return replace(done, problems=["there is no remote to push to (git remote add origin URL)"])
    env = context.location.environment()
    try:
        # The user's own push: with their configuration and their hooks. The guard has been asked before (`cli`).
        args = [*user_hooks.options(context.location), "push", "--set-upstream", remote, f"{layout.HEADS}{branch}"]
        process.run(args, cwd=context.location.root, env=env, neutral_config=False)
    except GitCommandError as error:
        return replace(done, problems=[f"the branch was not pushed to '{remote}': {error.message}"])
    done = replace(done, pushed_to=remote)
    url = context.settings.values.get(f"remote.{remote}.url", [""])[-1]
    argv = _forge_command(context, known, branch, done.title, url)
    return _open_request(argv, context.location.root, done) if argv else done


def _remote(context: OpenWorktree, branch: str) -> str | None:
    """Where git would push the branch."""
    values = context.settings.values
    keys = [key for key in values if key.startswith("remote.") and key.endswith(".url")]
    remotes = [key.removeprefix("remote.").removesuffix(".url") for key in keys]
    for key in (f"branch.{branch}.pushremote", "remote.pushdefault", f"branch.{branch}.remote"):
        name = values.get(key, [""])[-1]
        if name in remotes:
            return name
    return "origin" if "origin" in remotes else remotes[0] if len(remotes) == 1 else None


def _forge_command(context: OpenWorktree, known: Record, branch: str, title: str, url: str) -> list[str]:
    """The command of the forge's own tool that opens a pull request, but for its text; empty if there is no tool."""
    tools = ["glab", "gh"] if "gitlab" in url.lower() else ["gh", "glab"]
    tool = next((name for name in tools if shutil.which(name, path=process.environment().get("PATH"))), None)
    if tool is None:
        return []
    into = _target(context, known)
    if tool == "gh":
        argv = ["gh", "pr", "create", "--head", branch, "--title", title]
        return argv + (["--base", into] if into is not None else [])
    argv = ["glab", "mr", "create", "--source-branch", branch, "--title", title, "--yes"]
    return argv + (["--target-branch", into] if into is not None else [])


def _open_request(argv: list[str], cwd: str, done: Completion) -> Completion:
    with tempfile.TemporaryDirectory() as folder:
        body = os.path.join(folder, "body.md")
        with open(body, "w", encoding="utf-8", errors="replace") as file:
            file.write(done.document)
        text = ["--body-file", body] if argv[0] == "gh" else ["--description", done.document]
        ended = programs.run([*argv, *text], cwd=cwd, env=process.environment(), timeout=_FORGE_TIMEOUT)
    said = ended.output.decode("utf-8", "replace").strip()
    if ended.code != 0:
        why = "it took too long" if ended.timed_out else said.splitlines()[-1] if said else f"exit code {ended.code}"
        return replace(done, problems=[f"{argv[0]} did not open a pull request: {why}"])
    found = re.findall(r"https?://\S+", said)
    return replace(done, pull_request=found[-1] if found else None)


def _target(context: OpenWorktree, known: Record) -> str | None:
    """The branch to merge into, if the worktree began at one."""
    for prefix in ("refs/heads/", "refs/remotes/origin/"):
        name = known.base_ref.removeprefix("origin/") if prefix.startswith("refs/remotes") else known.base_ref
        if refs.resolve(context.location, prefix + name) is not None:
            return name
    return None
