"""The tools: what each takes, gives and may change, and the command that does it.

Arguments have the names of the long options and of the keys of the documents. No tool decides for a person, forgets,
deletes, or changes the guard or its policy.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from git_agentos.checkpoint.model import Checkpoint
from git_agentos.checkpoint.queries import FileChange, Status
from git_agentos.checkpoint.restore.request import Restoration
from git_agentos.errors import UsageError
from git_agentos.guard.approval.approvals import Approval
from git_agentos.guard.decision import Decision
from git_agentos.mcp import arguments as take
from git_agentos.mcp import schemas
from git_agentos.mcp.command import Commands
from git_agentos.mcp.schemas import Schema
from git_agentos.run.events import Run
from git_agentos.store.rows import TYPES, Entry
from git_agentos.util.named_tuple import NamedTuple
from git_agentos.watch.control import WatchStatus
from git_agentos.worktree.conflicts import Conflicts
from git_agentos.worktree.status import Worktrees

Arguments = Mapping[str, Any]
Answer = tuple[str, dict[str, Any]]  # a document as text and as an object


class Hints(NamedTuple):
    """What a client may assume: whether the tool changes nothing, may replace something, and has no further effect if
    it is called twice. None reaches out of this machine."""

    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False


class Tool(NamedTuple):
    """One tool. `call` runs its commands with arguments that follow `takes`."""

    name: str
    description: str
    takes: Schema
    gives: Schema
    hints: Hints
    call: Callable[[Commands, Arguments], Awaitable[Answer]]


_READS = Hints(read_only=True, idempotent=True)
_ID = "At least four digits of a checkpoint's id, 'latest', or '@{N}' for the N-th newest, 0 being the latest."
_AGENT = take.name("Read the timeline of this agent instead of this worktree's.")
_ALL = take.flag("Read the timelines of all worktrees.")
_PATHS = take.names("Only these files and folders, relative to the folder of the server.")
_EXPECTED = take.name("The 'state' that a dry run with the same arguments has returned: nothing newer is replaced.")
_KEY = take.text(
    "A new name for this call. A second call with the same name does nothing and returns the first result.",
    minLength=1,
    maxLength=200,
)
_DRY_RUN = "Only return what would be done, and the 'state' that would be replaced."


def words(given: Arguments, *names: str) -> list[str]:
    """The options of these names: `--keep-new`, `--message=TEXT`."""
    options = []
    for name in names:
        value, option = given.get(name), f"--{name.replace('_', '-')}"
        if value is True:
            options.append(option)
        elif value is not None and value is not False:
            options.append(f"{option}={value}")
    return options


def _answer(document: dict[str, Any]) -> Answer:
    return json.dumps(document), document


def _simple(*command: str, options: tuple[str, ...] = ()) -> Callable[[Commands, Arguments], Awaitable[Answer]]:
    """A command that takes nothing but options of the same names."""

    async def call(commands: Commands, given: Arguments) -> Answer:
        return await commands.run(*command, *words(given, *options))

    return call


async def _create(commands: Commands, given: Arguments) -> Answer:
    meta = [f"--meta={key}={value}" for key, value in given.get("meta", {}).items()]
    return await commands.run("checkpoint", *words(given, "message", "trigger", "task", "run", "session"), *meta)


async def _list(commands: Commands, given: Arguments) -> Answer:
    limit = [f"--max-count={int(given['limit'])}"]
    return await commands.run("checkpoint", "list", *limit, *words(given, "since", "task", "trigger", "agent", "all"))


async def _show(commands: Commands, given: Arguments) -> Answer:
    """The checkpoint, and the changes since: of the id that was found, since `latest` may soon be another one."""
    where = words(given, "agent", "all")
    _, document = await commands.run("checkpoint", "show", *where, "--", given["id"])
    if not given["diff"]:
        return _answer({**document, "diff": None})
    paths = ["--", *given["paths"]] if given.get("paths") else []
    _, diff = await commands.run("checkpoint", "diff", *where, *words(given, "stat"), document["id"], *paths)
    return _answer({**document, "diff": diff})


async def _restore(commands: Commands, given: Arguments) -> Answer:
    missing = [name for name in ("expected", "idempotency_key") if name not in given]
    if missing and not given["dry_run"]:
        raise UsageError(
            f"a restore needs {' and '.join(repr(each) for each in missing)}",
            "call it with 'dry_run' true: 'state' of its answer is what 'expected' takes; nothing was changed",
        )
    names = ("branch", "no_branch", "keep_new", "dry_run", "agent", "all", "expected", "idempotency_key")
    return await commands.run("restore", *words(given, *names), "--", given["id"], *given.get("paths", ()))


async def _add(commands: Commands, given: Arguments) -> Answer:
    details = [f"--json-details={json.dumps(given['details'])}"] if "details" in given else []
    files = [f"--file={each}" for each in given.get("files", ())]
    options = words(given, "commit", "task", "checkpoint")
    return await commands.run("log", "add", *details, *files, *options, "--", given["type"], given["summary"])


async def _conflicts(commands: Commands, given: Arguments) -> Answer:
    return await commands.run("worktree", "conflicts", *words(given, "dirty"), "--", *given.get("ids", ()))


async def _check(commands: Commands, given: Arguments) -> Answer:
    if ("argv" in given) == ("shell" in given):
        raise UsageError("give either 'argv' or 'shell'", "'argv' is a command line with its program")
    line = ["--", *given["argv"]] if "argv" in given else []
    return await commands.run("guard", "check", *words(given, "shell"), *line)


async def _run_status(commands: Commands, given: Arguments) -> Answer:
    """One run, or all, in the same form: a list."""
    if "id" not in given:
        return await commands.run("run", "list")
    _, document = await commands.run("run", "show", "--", given["id"])
    run = {key: value for key, value in document.items() if key != "schema"}
    return _answer({"schema": "agentos.run-list.v1", "runs": [run]})


def _of(kind: str, result: type) -> Schema:
    return schemas.document(kind, schemas.properties(result))


def _status() -> Schema:
    texts = schemas.listed(schemas.TEXT)
    return schemas.document(
        "status",
        {
            **schemas.properties(Status),
            "pending_approvals": schemas.listed(schemas.of(Approval)),
            "interrupted_runs": texts,
            "open_workflows": texts,
            "guard_problems": texts,
            "watch": schemas.or_null(schemas.of(WatchStatus)),
        },
    )


def _shown() -> Schema:
    diff = schemas.document(
        "checkpoint-diff",
        {
            "from": schemas.TEXT,
            "to": schemas.or_null(schemas.TEXT),
            "files": schemas.listed(schemas.of(FileChange)),
            "patch": schemas.or_null(schemas.TEXT),
        },
    )
    return schemas.document("checkpoint", {**schemas.properties(Checkpoint), "diff": schemas.or_null(diff)})


def _list_of(kind: str, key: str, each: type) -> Schema:
    return schemas.document(kind, {key: schemas.listed(schemas.of(each))})


_REPLACES = {"expected": _EXPECTED, "idempotency_key": _KEY}

# In the order in which they are listed.
TOOLS = (
    Tool(
        "status",
        "Show what has changed in the worktree, the last checkpoint, interrupted commands, and approval requests.",
        take.schema({}),
        _status(),
        _READS,
        _simple("status"),
    ),
    Tool(
        "checkpoint_create",
        "Save the complete working state (index, files, untracked files, operation in progress) without changing "
        "it. Do this before anything risky. Ignored files are not saved.",
        take.schema(
            {
                "message": take.text("Describe the checkpoint."),
                "trigger": take.name(
                    "Why it is created. Only manual (the default) and milestone create one if nothing has changed."
                ),
                "task": take.text("The id of a task to record."),
                "run": take.text("The id of a run to record."),
                "session": take.text("The id of a session to record."),
                "meta": {
                    "type": "object",
                    "additionalProperties": {"type": "string", "maxLength": 4096},
                    "propertyNames": {"minLength": 1, "maxLength": 200, "pattern": "^[^=]+$"},
                    "maxProperties": 100,
                    "description": "Further text to record, by key.",
                },
            }
        ),
        _of("checkpoint", Checkpoint),
        Hints(),
        _create,
    ),
    Tool(
        "checkpoint_list",
        "List checkpoints, newest first: those of this worktree unless 'agent' or 'all' is given.",
        take.schema(
            {
                "limit": take.number("Return at most this many.") | {"default": 20},
                "since": take.text("Only since this time: ISO 8601 or '2 hours ago'."),
                "task": take.text("Only those of this task."),
                "trigger": take.name("Only those with this trigger."),
                "agent": _AGENT,
                "all": _ALL,
            }
        ),
        _list_of("checkpoint-list", "checkpoints", Checkpoint),
        _READS,
        _list,
    ),
    Tool(
        "checkpoint_show",
        "Show what a checkpoint contains, and in 'diff' the changes from it to the present files, as a patch.",
        take.schema(
            {
                "id": take.name(_ID),
                "diff": take.flag("Return the changes since.", default=True),
                "stat": take.flag("Of the changes, only the paths, not the patch."),
                "paths": take.names("Only the changes of these files and folders."),
                "agent": _AGENT,
                "all": _ALL,
            },
            ["id"],
        ),
        _shown(),
        _READS,
        _show,
    ),
    Tool(
        "restore",
        "Restore a checkpoint, on a new branch unless 'no_branch' or 'paths' is given. Call it first without "
        "'dry_run': it only returns the plan. Then call it with the same arguments, 'dry_run' false, 'expected' "
        "(the 'state' of the plan) and a new 'idempotency_key'. If anything has changed in between, it refuses "
        "(kind 'changed'). The state before is saved; 'undo' restores it.",
        take.schema(
            {
                "id": take.name(_ID),
                "paths": _PATHS,
                "branch": take.name("The name of the new branch."),
                "no_branch": take.flag("Do not move HEAD."),
                "keep_new": take.flag("Keep files that were created since the checkpoint."),
                "dry_run": take.flag(_DRY_RUN, default=True),
                **_REPLACES,
                "agent": _AGENT,
                "all": _ALL,
            },
            ["id"],
        ),
        _of("restore", Restoration),
        Hints(destructive=True, idempotent=True),
        _restore,
    ),
    Tool(
        "undo",
        "Restore the state before the last restore or undo. The present state is saved first. A second undo undoes "
        "the first; with an 'idempotency_key', a repeated call does nothing.",
        take.schema({"dry_run": take.flag(_DRY_RUN), **_REPLACES}),
        _of("undo", Restoration),
        Hints(destructive=True),
        _simple("undo", options=("dry_run", "expected", "idempotency_key")),
    ),
    Tool(
        "log_add",
        "Add an entry to the agents' log: a decision, an action, an error. Secrets are removed before.",
        take.schema(
            {
                "type": {"enum": list(TYPES), "description": "What kind of entry it is."},
                "summary": take.text("What happened, in one line."),
                "details": {"type": "object", "description": "Anything else, as JSON."},
                "files": take.names("Related files."),
                "commit": take.name("A related commit."),
                "task": take.text("The id of a related task."),
                "checkpoint": take.name("A related checkpoint."),
            },
            ["type", "summary"],
        ),
        _of("log-entry", Entry),
        Hints(),
        _add,
    ),
    Tool(
        "conflicts",
        "Show which agents' branches conflict with each other, and in which order to merge them.",
        take.schema(
            {
                "ids": take.names("Compare only these agents."),
                "dirty": take.flag("Compare the latest checkpoints, not the commits."),
            }
        ),
        _of("conflicts", Conflicts),
        _READS,
        _conflicts,
    ),
    Tool(
        "guard_check",
        "Show whether policy allows a command, without running it: 'allow', 'approve' (a person has to grant it) "
        "or 'forbid', with the reason and what to do instead.",
        take.schema(
            {
                "argv": take.names("A command line with its program, as ['git', 'reset', '--hard'].")
                | {"items": {"type": "string", "maxLength": 60_000}, "minItems": 1},
                "shell": take.text("Shell text, of which every command is checked."),
            }
        ),
        _of("decision", Decision),
        _READS,
        _check,
    ),
    Tool(
        "approvals_status",
        "List approval requests and their states. A person grants or denies them elsewhere.",
        take.schema({"all": take.flag("Also those that were denied or used, or have expired.")}),
        _list_of("approval-list", "approvals", Approval),
        _READS,
        _simple("approvals", "list", options=("all",)),
    ),
    Tool(
        "worktree_list",
        "List the agents' worktrees: branch, state, changes, last checkpoint.",
        take.schema({}),
        _of("worktree-list", Worktrees),
        _READS,
        _simple("worktree", "list"),
    ),
    Tool(
        "run_status",
        "Show runs (an agent's command and its validation), newest first: state, steps and outcomes.",
        take.schema({"id": take.name("Only this run.")}),
        _list_of("run-list", "runs", Run),
        _READS,
        _run_status,
    ),
)
