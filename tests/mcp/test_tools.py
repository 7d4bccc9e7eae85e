"""The tools of `git agentos mcp`, called by the SDK's client: the documents and the errors of the commands.

The client checks every result against the schema that the server has listed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from git_agentos.mcp import schemas, tools
from tests.support.command_line import Cli
from tests.support.json_reference import check_document, schema_of
from tests.support.mcp_client import Connection, connect
from tests.support.repo import Repo
from tests.support.state import assert_same, assert_unchanged, complete_state

pytestmark = pytest.mark.slow

Ask = Callable[..., Any]

# name -> read_only, destructive, idempotent
TOOLS = {
    "status": (True, False, True),
    "checkpoint_create": (False, False, False),
    "checkpoint_list": (True, False, True),
    "checkpoint_show": (True, False, True),
    "restore": (False, True, True),
    "undo": (False, True, False),
    "log_add": (False, False, False),
    "conflicts": (True, False, True),
    "guard_check": (True, False, True),
    "approvals_status": (True, False, True),
    "worktree_list": (True, False, True),
    "run_status": (True, False, True),
}


@pytest.fixture
def client(repo: Repo) -> Iterator[Connection]:
    repo.write("notes.txt", "changed\n")
    repo.write("untracked.txt", "untracked\n")
    with connect(repo.path) as connection:
        yield connection


@pytest.fixture
def ask(cli: Cli, repo: Repo) -> Ask:
    def call(*words: str) -> Any:
        return cli("-C", str(repo.path), "--json", *words).json

    return call


def test_the_tools_and_what_a_client_may_assume(client: Connection) -> None:
    """Exactly these: none decides for a person, forgets, deletes, or changes the guard."""
    found = {}
    for tool in client.tools():
        hints = tool.annotations
        assert hints is not None
        assert hints.open_world_hint is False
        found[tool.name] = (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint)
        assert tool.description
        assert tool.input_schema["additionalProperties"] is False
        assert all("description" in each for each in tool.input_schema["properties"].values()), tool.name
        assert tool.output_schema is not None
        assert tool.output_schema["type"] == "object"
    assert found == TOOLS
    assert list(found) == list(TOOLS)


def _keys(schema: schemas.Schema) -> list[str]:
    return list(schema["properties"])


def test_the_schemas_have_the_keys_of_the_reference() -> None:
    for tool in tools.TOOLS:
        properties = tool.gives["properties"]
        kind = properties["schema"]["const"].removeprefix("agentos.").removesuffix(".v1")
        assert set(tool.gives["required"]) == set(properties)
        own = {"checkpoint_show": ["diff"]}.get(tool.name, [])
        assert _keys(tool.gives) == ["schema", *schema_of(kind), *own], tool.name
    shown = next(each for each in tools.TOOLS if each.name == "checkpoint_show").gives["properties"]["diff"]
    assert _keys(shown["anyOf"][0]) == ["schema", *schema_of("checkpoint-diff")]
    listed = {"checkpoint_list": "checkpoint", "approvals_status": "approval", "run_status": "run"}
    for tool in tools.TOOLS:
        if tool.name in listed:
            (inner,) = [each for key, each in tool.gives["properties"].items() if key != "schema"]
            assert _keys(inner["items"]) == list(schema_of(listed[tool.name]))


def test_what_reads_answers_as_the_command(client: Connection, repo: Repo, ask: Ask) -> None:
    made = client.call("checkpoint_create", message="first", task="T-1", meta={"a": "b=c", "d": ""}).document
    assert check_document(made) == "checkpoint"
    assert (made["description"], made["task_id"], made["meta"]) == ("first", "T-1", {"a": "b=c", "d": ""})
    assert made == ask("checkpoint", "show", made["id"])
    ask("worktree", "create", "dev-1", "--no-guard")
    repo.write("notes.txt", "changed again\n")
    for name, arguments, words in (
        ("status", {}, ("status",)),
        ("checkpoint_list", {}, ("checkpoint", "list")),
        ("checkpoint_list", {"limit": 0}, ("checkpoint", "list", "-n", "0")),
        (
            "checkpoint_list",
            {"all": True, "trigger": "milestone"},
            ("checkpoint", "list", "--all", "--trigger", "milestone"),
        ),
        ("checkpoint_list", {"since": "1 hour ago", "task": "T-1"}, ("checkpoint", "list", "--task", "T-1")),
        ("conflicts", {}, ("worktree", "conflicts")),
        ("conflicts", {"ids": ["dev-1"], "dirty": True}, ("worktree", "conflicts", "dev-1", "--dirty")),
        ("guard_check", {"argv": ["git", "reset", "--hard"]}, ("guard", "check", "--", "git", "reset", "--hard")),
        ("guard_check", {"shell": "git clean -fdx; ls"}, ("guard", "check", "--shell", "git clean -fdx; ls")),
        ("approvals_status", {"all": True}, ("approvals", "list", "--all")),
        ("run_status", {}, ("run", "list")),
    ):
        reply = client.call(name, **arguments)
        assert reply.document == reply.structured == ask(*words), name
        check_document(reply.document)
    listed, expected = client.call("worktree_list").document, ask("worktree", "list")
    assert [each["id"] for each in listed["worktrees"]] == [each["id"] for each in expected["worktrees"]] == ["dev-1"]


def test_a_checkpoint_with_its_changes(client: Connection, repo: Repo, ask: Ask) -> None:
    made = client.call("checkpoint_create").document
    repo.write("notes.txt", "changed again\n")
    repo.write("readme.txt", "changed too\n")
    shown = client.call("checkpoint_show", id="latest").document
    assert shown.pop("diff") == ask("checkpoint", "diff", made["id"])
    assert shown == made
    one = client.call("checkpoint_show", id=made["id"][:8], paths=["notes.txt"]).document["diff"]
    assert one == ask("checkpoint", "diff", made["id"], "--", "notes.txt")
    counted = client.call("checkpoint_show", id="@{0}", stat=True).document["diff"]
    assert counted == ask("checkpoint", "diff", made["id"], "--stat")
    assert client.call("checkpoint_show", id="latest", diff=False).document["diff"] is None


def test_a_restore_only_plans_unless_it_is_told_otherwise(client: Connection, repo: Repo, ask: Ask) -> None:
    made = client.call("checkpoint_create").document["id"]
    repo.write("notes.txt", "later\n")
    before = complete_state(repo.path, strict=True)
    planned = client.call("restore", id=made).document
    assert check_document(planned) == "restore"
    assert {**planned, "branch": None} == {**ask("restore", made, "--dry-run"), "branch": None}
    given: list[dict[str, Any]] = [{}, {"expected": planned["state"]}, {"idempotency_key": "k"}]
    for arguments in given:
        assert client.call("restore", id=made, dry_run=False, **arguments).error["kind"] == "usage"
    changed = client.call("restore", id=made, dry_run=False, expected="0" * 40, idempotency_key="k").error
    assert changed["kind"] == "changed"
    assert_unchanged(before, complete_state(repo.path, strict=True), "nothing was asked for")
    assert [each["id"] for each in ask("checkpoint", "list")["checkpoints"]] == [made]


def test_restore_and_undo(client: Connection, repo: Repo) -> None:
    before = complete_state(repo.path)
    made = client.call("checkpoint_create").document["id"]
    repo.write("notes.txt", "later\n")
    repo.remove("untracked.txt")
    wrecked = complete_state(repo.path)
    planned = client.call("restore", id="latest", no_branch=True).document
    call = {"id": "latest", "no_branch": True, "dry_run": False, "expected": planned["state"], "idempotency_key": "k"}
    done = client.call("restore", **call).document
    assert (done["checkpoint"], done["changed"], done["dry_run"]) == (made, ["notes.txt", "untracked.txt"], False)
    assert_same(before, complete_state(repo.path), "restore", refs=True)
    repo.write("notes.txt", "work since\n")
    with connect(repo.path) as another:
        assert another.call("restore", **call).document == done
        assert another.call("restore", **{**call, "id": made}).error["kind"] == "usage"
    assert repo.read("notes.txt") == b"work since\n"
    repo.write("notes.txt", "changed\n")
    planned = client.call("undo", dry_run=True).document
    undone = client.call("undo", expected=planned["state"], idempotency_key="u").document
    assert check_document(undone) == "undo"
    assert_same(wrecked, complete_state(repo.path), "undo", refs=True)
    assert client.call("undo", expected=planned["state"], idempotency_key="u").document == undone
    assert client.call("undo", expected=planned["state"]).error["kind"] == "changed"


def test_paths_are_those_of_the_servers_folder(client: Connection, repo: Repo) -> None:
    made = client.call("checkpoint_create").document["id"]
    for name in ("notes.txt", "src/app.py", "untracked.txt"):
        repo.write(name, "later\n")
    with connect(repo.path / "src") as below:
        call = {"id": made, "paths": ["app.py", "../untracked.txt"]}
        state = below.call("restore", **call).document["state"]
        done = below.call("restore", **call, dry_run=False, expected=state, idempotency_key="k").document
    assert done["changed"] == ["src/app.py", "untracked.txt"]
    assert repo.read("notes.txt") == b"later\n"


def test_the_log(client: Connection, repo: Repo, ask: Ask) -> None:
    made = client.call(
        "log_add",
        type="decision",
        summary="--keep the queue",
        details={"why": ["é", 1]},
        files=["notes.txt"],
        task="T-1",
    ).document
    assert check_document(made) == "log-entry"
    assert ask("log", "list")["entries"] == [{key: each for key, each in made.items() if key != "schema"}]
    assert (made["summary"], made["details"], made["files_changed"]) == (
        "--keep the queue", {"why": ["é", 1]}, ["notes.txt"],
    )  # fmt: skip


def test_one_run(client: Connection, repo: Repo, cli: Cli) -> None:
    cli("-C", str(repo.path), "--json", "run", "start", "--id", "r1", "--agent", "true", "--validate", "true")
    shown = cli("-C", str(repo.path), "--json", "run", "show", "r1").json
    found = client.call("run_status", id="r1").document
    assert check_document(found) == "run-list"
    assert found["runs"] == [{key: each for key, each in shown.items() if key != "schema"}]
    assert found == client.call("run_status").document


def test_errors_are_those_of_the_commands(client: Connection, ask: Ask, cli: Cli, repo: Repo) -> None:
    for name, arguments, words in (
        ("checkpoint_show", {"id": "beef"}, ("checkpoint", "show", "beef")),
        ("checkpoint_list", {"agent": "nobody"}, ("checkpoint", "list", "--agent", "nobody")),
        ("checkpoint_create", {"trigger": "whim"}, ("checkpoint", "--trigger", "whim")),
        ("restore", {"id": "beef"}, ("restore", "beef", "--dry-run")),
        ("undo", {}, ("undo",)),
        ("conflicts", {"ids": ["nobody"]}, ("worktree", "conflicts", "nobody")),
        ("run_status", {"id": "nope"}, ("run", "show", "nope")),
    ):
        document = cli("-C", str(repo.path), "--json", *words).json
        assert client.call(name, **arguments).error == document["error"], name


def test_names_that_are_not_utf8(client: Connection, repo: Repo) -> None:
    """The text is the command's own document; the protocol itself has no lone surrogates."""
    repo.write(b"bad\xff", "odd\n")
    reply = client.call("checkpoint_create")
    assert os.fsdecode(b"bad\xff") in reply.document["untracked_files"]
    assert "bad\\udcff" in reply.structured["untracked_files"]


REFUSED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("status", {"extra": 1}),
    ("checkpoint_create", {"message": 1}),
    ("checkpoint_create", {"message": "x" * 60_001}),
    ("checkpoint_create", {"message": "a\0b"}),
    ("checkpoint_create", {"meta": {"a=b": "c"}}),
    ("checkpoint_create", {"meta": {"a": 1}}),
    ("checkpoint_list", {"limit": "5"}),
    ("checkpoint_list", {"limit": -1}),
    ("checkpoint_list", {"limit": 10**12}),
    ("checkpoint_list", {"all": "yes"}),
    ("checkpoint_list", {"agent": "--all"}),
    ("checkpoint_show", {}),
    ("checkpoint_show", {"id": ""}),
    ("checkpoint_show", {"id": "--all"}),
    ("checkpoint_show", {"id": "-n"}),
    ("checkpoint_show", {"id": None}),
    ("checkpoint_show", {"id": ["latest"]}),
    ("restore", {"id": "--worktree=x"}),
    ("restore", {"id": "latest", "dry_run": 0}),
    ("restore", {"id": "latest", "worktree": "x"}),
    ("restore", {"id": "latest", "host": "x"}),
    ("restore", {"id": "latest", "paths": "notes.txt"}),
    ("restore", {"id": "latest", "paths": ["x"] * 1001}),
    ("restore", {"id": "latest", "paths": ["x" * 4000] * 200}),
    ("restore", {"id": "latest", "branch": "--force"}),
    ("restore", {"id": "latest", "paths": ["../../etc/passwd"]}),
    ("restore", {"id": "latest", "paths": ["/etc/passwd"]}),
    ("restore", {"id": "latest", "paths": [".git/config"]}),
    ("restore", {"id": "latest", "paths": ["--worktree=x"]}),
    ("restore", {"id": "latest", "no_branch": True, "branch": "x"}),
    ("undo", {"expected": ""}),
    ("undo", {"idempotency_key": "x" * 201}),
    ("undo", {"idempotency_key": "a\nb"}),
    ("log_add", {"type": "whim", "summary": "x"}),
    ("log_add", {"type": "action", "summary": "x", "details": [1]}),
    ("log_add", {"type": "action", "summary": "x", "files": ["../../outside"]}),
    ("guard_check", {}),
    ("guard_check", {"argv": []}),
    ("guard_check", {"argv": ["git"], "shell": "git"}),
    ("no_such_tool", {}),
    ("guard_disable", {}),
    ("approvals_grant", {"request": "x"}),
)


def test_arguments_that_are_refused(repo: Repo, client: Connection) -> None:
    """With the kind `usage` and a message that is not long; nothing is changed, and the server goes on."""
    assert not client.call("checkpoint_create").is_error
    before = complete_state(repo.path, strict=True)
    for name, arguments in REFUSED:
        error = client.call(name, **arguments).error
        assert error["kind"] == "usage", (name, arguments, error)
        assert len(error["message"]) < 500, (name, arguments, error)
    assert_unchanged(before, complete_state(repo.path, strict=True), "a refused call changed something")
    assert not client.call("status").is_error
