"""Requests and grants: who may decide, what a grant is good for, and what hostile hands or a kill leave of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from git_agentos.errors import GuardError, PolicyError, UsageError
from git_agentos.guard import signing
from git_agentos.guard.approval import approvals, documents
from git_agentos.guard.approval.approvals import Approval, ApprovalRequest, Store
from git_agentos.process import table
from tests.support.agents import agent_worktree
from tests.support.confirming import confirm, set_up
from tests.support.guard.approvals import AGENT, approve, at_terminal, in_parallel, run_by
from tests.support.json_reference import check_document
from tests.support.repo import Repo
from tests.support.tool import Result, run, run_ok


@pytest.fixture
def dev(repo: Repo) -> Repo:
    return agent_worktree(repo, "dev")


@pytest.fixture
def store(repo: Repo) -> Store:
    return approvals.open_store(str(repo.git_dir), os.environ)


def asked(**changes: Any) -> ApprovalRequest:
    made = ApprovalRequest(
        operation="merge",
        operations=("merge",),
        argv=("git", "merge", "other"),
        command_digest=approvals.command_digest(("git", "merge", "other")),
        cwd=None,
        worktree="/w",
        head="1" * 40,
        branch="refs/heads/agent/dev",
        agent="dev",
        reason="because",
    )
    return made._replace(**changes)


def me() -> table.Process:
    found = table.identify(os.getpid())
    assert found is not None
    return found


# -- what a grant is good for ------------------------------------------------------------------------------------------


def test_the_same_question_is_one_request_until_it_was_answered_and_used(store: Store) -> None:
    first = approvals.file_request(store, asked())
    assert approvals.file_request(store, asked(checkpoint="2" * 40)) == first
    assert approvals.file_request(store, asked(head="3" * 40)).id != first.id
    approvals.grant(store, first.id, by="me")
    assert approvals.file_request(store, asked()).id == first.id
    found = approvals.find_grant(store, asked())
    assert found is not None
    assert approvals.use(store, found, me())
    second = approvals.file_request(store, asked())
    assert second.id != first.id
    assert [each.state for each in approvals.read_all(store)] in (
        ["pending", "pending", "used"],
        ["pending", "used", "pending"],
    )


def test_a_grant_expires(store: Store) -> None:
    now = time.time()
    request = approvals.file_request(store, asked())
    granted = approvals.grant(store._replace(expiry=60.0), request.id, by="me")
    assert granted.expires_at is not None
    later = store._replace(clock=lambda: now + 120)
    assert approvals.find_grant(store, asked()) is not None
    assert approvals.find_grant(later, asked()) is None
    assert approvals.find(later, request.id).state == "expired"
    again = approvals.file_request(later, asked())
    assert (again.state, again.id != request.id) == ("pending", True)
    with pytest.raises(PolicyError, match="expired"):
        approvals.grant(later, request.id, by="me")


def test_a_denial_lasts_as_long_as_a_grant_would(store: Store) -> None:
    now = time.time()
    request = approvals.file_request(store, asked())
    approvals.deny(store, request.id, by="me", note="no")
    with pytest.raises(PolicyError, match="denied"):
        approvals.grant(store, request.id, by="me")
    assert approvals.file_request(store, asked()).id == request.id
    later = store._replace(clock=lambda: now + 2 * store.expiry)
    assert approvals.file_request(later, asked()).id != request.id
    assert approvals.find(later, request.id).state == "denied"


def test_a_grant_can_be_taken_back_until_it_is_used(store: Store) -> None:
    request = approvals.file_request(store, asked())
    approvals.grant(store, request.id, by="me")
    assert approvals.deny(store, request.id, by="you", note="on second thought").note == "on second thought"
    assert approvals.find_grant(store, asked()) is None
    other = approvals.file_request(store, asked(head=None))
    granted = approvals.grant(store, other.id, by="me")
    assert approvals.use(store, granted, me())
    with pytest.raises(PolicyError, match="used"):
        approvals.deny(store, other.id, by="you")


def test_grant_is_used_by_one_of_many_processes(store: Store) -> None:
    request = approvals.file_request(store, asked())
    granted = approvals.grant(store, request.id, by="me")
    assert in_parallel(12, lambda _: approvals.use(store, granted, me())).count(True) == 1


def test_request_is_decided_by_one_of_many_processes(store: Store) -> None:
    request = approvals.file_request(store, asked())

    def decide(n: int) -> str:
        try:
            made = approvals.grant(store, request.id, by="a") if n % 2 else approvals.deny(store, request.id, by="b")
        except PolicyError:
            return "refused"
        return made.state

    in_parallel(12, decide)
    assert approvals.find(store, request.id).state in ("granted", "denied")
    assert len(list((Path(store.folder) / "grants").iterdir())) == 1


def test_same_question_of_many_processes_is_one_request(store: Store) -> None:
    """It is new to one of them."""
    new: list[Approval] = []
    filed = in_parallel(12, lambda _: approvals.file_request(store, asked(), on_new=new.append))
    assert len({each.id for each in filed}) == 1
    assert new == [filed[0]]
    assert len(approvals.read_all(store)) == 1


def test_a_request_that_another_process_has_just_filed_is_not_new(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = documents.create

    def overtaken(*args: object) -> bool:
        real(*args)  # type: ignore[arg-type]
        return real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(documents, "create", overtaken)
    new: list[Approval] = []
    assert approvals.file_request(store, asked(), on_new=new.append).state == "pending"
    assert new == []


def test_ids_are_given_by_their_beginning(store: Store) -> None:
    request = approvals.file_request(store, asked())
    assert approvals.find(store, request.id[:4]) == request
    for spec in ("abc", "", "../x", "zzzz", request.id + "0"):
        with pytest.raises((UsageError, GuardError)):
            approvals.find(store, spec)


def test_a_command_line_of_any_bytes(store: Store) -> None:
    words = ("git", "add", os.fsdecode(b"bad\xff"), "naïve\nline", "")
    request = approvals.file_request(store, asked(argv=words, command_digest=approvals.command_digest(words)))
    assert approvals.find(store, request.id).argv == list(words)
    assert approvals.command_digest(words) != approvals.command_digest(
        ("git", "add", os.fsdecode(b"bad\xfe"), "naïve\nline", "")
    )
    assert approvals.command_digest(("/usr/bin/git", "merge")) == approvals.command_digest(("git", "merge"))


# -- hostile hands -----------------------------------------------------------------------------------------------------


def _change(path: Path, **values: object) -> None:
    body = json.loads(path.read_text())
    body.update(values)
    path.write_text(json.dumps(body))


def test_forged_grant_does_not_count(store: Store) -> None:
    request = approvals.file_request(store, asked())
    path = Path(store.folder) / "grants" / f"{request.id}.json"
    body = {"decision": "granted", "by": "me", "at": request.created_at, "until": time.time() + 999, "note": None}
    codes: list[object] = [None, "", "0" * 64, 17, [], "é"]
    for mac in codes:
        path.write_text(json.dumps({**body, "mac": mac}))
        assert approvals.find_grant(store, asked()) is None, mac
        assert approvals.find(store, request.id).state == "pending"
    for data in (b"", b"{", b"[]", b"null", b"[" * 100000, b"\xff"):
        path.write_bytes(data)
        assert approvals.find(store, request.id).state == "pending", data[:9]


def test_a_grant_of_another_request_is_not_this_ones(store: Store) -> None:
    good, bad = approvals.file_request(store, asked()), approvals.file_request(store, asked(head=None))
    approvals.grant(store, good.id, by="me")
    folder = Path(store.folder) / "grants"
    (folder / f"{bad.id}.json").write_bytes((folder / f"{good.id}.json").read_bytes())
    assert approvals.find(store, bad.id).state == "pending"
    assert approvals.find_grant(store, asked(head=None)) is None


def test_a_grant_cannot_be_made_longer_nor_a_request_another_one(store: Store) -> None:
    request = approvals.file_request(store, asked())
    approvals.grant(store, request.id, by="me")
    _change(Path(store.folder) / "grants" / f"{request.id}.json", until=time.time() + 10**9)
    assert approvals.find(store, request.id).state == "pending"
    other = approvals.file_request(store, asked(head=None))
    _change(Path(store.folder) / "requests" / f"{other.id}.json", argv=["git", "push", "--force"])
    with pytest.raises(GuardError, match="changed"):
        approvals.find(store, other.id)
    # Without its code it still has to be what its id says.
    _change(Path(store.folder) / "requests" / f"{other.id}.json", mac=None)
    with pytest.raises(GuardError, match="changed"):
        approvals.find(store, other.id)
    assert [each.id for each in approvals.read_all(store)] == [request.id]


def test_forged_pass_does_not_count(store: Store, repo: Repo) -> None:
    process = me()
    name = f"{process.pid}-{process.start}.json"
    body = {"pid": process.pid, "start": process.start, "boot": "", "id": "0" * 12, "bound": "x", "mac": "0" * 64}
    (Path(store.folder) / "running" / name).write_text(json.dumps(body))
    assert approvals.active_grant(str(repo.git_dir), os.getpid(), os.environ) is None
    # Where there is no key, as in a sandbox, the grant has to be one all the same.
    boot = table.boot_id()
    (Path(store.folder) / "running" / name).write_text(json.dumps({**body, "boot": boot}))
    (Path(store.folder) / "grants" / f"{body['id']}.json").write_text(json.dumps({"decision": "granted", "mac": None}))
    assert approvals.active_grant(str(repo.git_dir), os.getpid(), {"XDG_CONFIG_HOME": "/nowhere"}) is None


def test_grant_signed_with_another_users_key_does_not_count(store: Store, tmp_path: Path) -> None:
    other = store._replace(key=signing.key({"XDG_CONFIG_HOME": str(tmp_path / "other"), "HOME": str(tmp_path)}))
    request = approvals.file_request(other, asked())
    approvals.grant(other, request.id, by="them")
    assert approvals.find_grant(store, asked()) is None
    assert approvals.read_all(store) == []


def test_missing_key_allows_no_grant(store: Store) -> None:
    request = approvals.file_request(store._replace(key=None), asked())
    assert approvals.find(store, request.id).state == "pending"  # a request from a sandbox
    with pytest.raises(GuardError, match="key"):
        approvals.grant(store._replace(key=None), request.id, by="me")
    approvals.grant(store, request.id, by="me")
    assert approvals.find_grant(store, asked()) is not None
    assert approvals.find_grant(store._replace(key=None), asked()) is None


def test_folders_that_are_links_are_refused(repo: Repo, tmp_path: Path) -> None:
    folder = repo.git_dir / "agentos" / "approvals"
    folder.mkdir(parents=True)
    (folder / "grants").symlink_to(tmp_path)
    verdict = run(repo.path, "approvals", "grant", "abcd1234abcd")
    assert verdict.code != 0
    with pytest.raises(Exception, match="symbolic link"):
        approvals.open_store(str(repo.git_dir), os.environ)


def test_the_key_is_the_users_alone(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path)}
    made = in_parallel(8, lambda _: signing.key(env))
    path = tmp_path / ".config" / "git-agentos" / "key"
    assert set(made) == {path.read_bytes()}
    assert (len(made[0]), path.stat().st_mode & 0o777) == (32, 0o600)
    assert os.listdir(path.parent) == ["key"]
    assert signing.is_signed(b"data", signing.sign(b"data", env), env)
    assert not signing.is_signed(b"other", signing.sign(b"data", env), env)
    path.chmod(0o666)
    with pytest.raises(GuardError, match="others may write"):
        signing.key(env)


# -- killed ------------------------------------------------------------------------------------------------------------

_WORK = """\
import os, sys, itertools
from git_agentos.guard.approval import approvals
from git_agentos.guard.approval.approvals import ApprovalRequest
store = approvals.open_store(sys.argv[1], os.environ)
print("ready", flush=True)
for n in itertools.count():
    words = ("git", "merge", str(n))
    asked = ApprovalRequest("merge", ("merge",), words, approvals.command_digest(words), None, "/w", None, None, "dev")
    found = approvals.file_request(store, asked)
    granted = approvals.grant(store, found.id, by="me")
    assert approvals.use(store, granted, table.identify(os.getpid()))
"""


def test_a_kill_leaves_whole_documents(repo: Repo, store: Store) -> None:
    for delay in (0.002, 0.005, 0.011, 0.017, 0.023):
        child = subprocess.Popen(
            [sys.executable, "-c", _WORK, str(repo.git_dir)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        with child:
            assert child.stdout is not None
            child.stdout.readline()
            time.sleep(delay)
            child.send_signal(signal.SIGKILL)
        found = approvals.read_all(store)
        files = {path.stem for path in (Path(store.folder) / "requests").glob("*.json")}
        assert {each.id for each in found} == files
        for path in Path(store.folder).rglob("[!.]*.json"):
            json.loads(path.read_text())
        for each in found:
            if each.state == "granted":  # the use of it was cut off: it is still good, once
                assert approvals.use(store, each, me())
                assert not approvals.use(store, each, me())


def test_old_requests_are_removed(store: Store) -> None:
    request = approvals.file_request(store, asked())
    left = Path(store.folder) / "requests" / ".123-abc"
    left.write_text("{")
    for path in (left, Path(store.folder) / "requests" / f"{request.id}.json"):
        os.utime(path, (0, 0))
    approvals.file_request(store, asked(head=None))
    assert not left.exists()
    assert [each.id for each in approvals.read_all(store)] != [request.id]
    assert len(approvals.read_all(store)) == 1
    dead = Path(store.folder) / "running" / "999999-1.json"
    dead.write_text("{}")
    granted = approvals.grant(store, approvals.read_all(store)[0].id, by="me")
    approvals.use(store, granted, me())
    assert not dead.exists()
    assert documents.FOLDERS == ("requests", "grants", "used", "running")


# -- the command -------------------------------------------------------------------------------------------------------


@pytest.fixture
def request_id(dev: Repo) -> str:
    return str(run_by(AGENT, approve(dev.path), "merge", "other", cwd=dev.path).approval)


def test_list_show_grant_and_status(repo: Repo, dev: Repo, request_id: str) -> None:
    [listed] = run_ok(repo.path, "approvals", "list")["approvals"]
    shown = run_ok(repo.path, "approvals", "show", request_id[:6])
    assert {key: value for key, value in shown.items() if key != "schema"} == listed
    assert run_ok(dev.path, "status")["pending_approvals"] == [listed]
    assert (listed["id"], listed["operation"], listed["state"]) == (request_id, "merge", "pending")
    assert (listed["argv"], listed["agent_id"]) == (["git", "merge", "other"], "dev")
    assert (listed["head"], listed["worktree_path"]) == (dev.oid(), str(dev.path))
    granted = at_terminal(repo.path, "--json", "approvals", "grant", request_id).json
    assert (granted["state"], granted["decided_by"]) == ("granted", "terminal")
    assert at_terminal(repo.path, "--json", "approvals", "grant", request_id).json == granted  # said twice
    assert run_ok(repo.path, "status")["pending_approvals"] == []
    for document in (shown, granted, {"schema": "agentos.approval-list.v1", "approvals": [listed]}):
        check_document(document)
    told = run(repo.path, "approvals", "list").out.decode()
    assert request_id in told
    assert "git merge other" in told


def _refused(done: Result, *words: str) -> None:
    assert done.code == 3, str(done)
    for word in words:
        assert word in done.err.decode(), str(done)


@pytest.mark.parametrize("verb", ["grant", "deny"])
def test_an_agent_decides_nothing(repo: Repo, dev: Repo, request_id: str, verb: str) -> None:
    _refused(at_terminal(dev.path, "approvals", verb, request_id), "agent 'dev'", "worktree")
    _refused(at_terminal(dev.path / "src", "approvals", verb, request_id), "agent 'dev'")
    for id_ in ("dev", "anybody", "not an id"):
        done = at_terminal(repo.path, "approvals", verb, request_id, env={"AGENTOS_AGENT_ID": id_})
        assert done.code in (2, 3), str(done)
    _refused(at_terminal(repo.path, "--as", "boss", "approvals", verb, request_id), "--as")
    _refused(at_terminal(repo.path, "approvals", verb, request_id, env={"AGENTOS_GUARD": "dev"}), "agent 'dev'")
    [still] = run_ok(repo.path, "approvals", "list")["approvals"]
    assert still["state"] == "pending"


def test_process_started_by_an_agent_cannot_decide(repo: Repo, dev: Repo, request_id: str) -> None:
    """An agent that leaves its worktree and empties its environment, with a terminal of its own."""
    command = f"cd {repo.path} && env -u AGENTOS_AGENT_ID {sys.executable} -m git_agentos approvals grant {request_id}"
    script = f"import pty, os, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(['sh', '-c', {command!r}])))"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=dev.path, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    assert done.returncode == 3, done
    assert b"a process above this one is an agent's" in done.stdout


def test_decision_without_a_terminal_needs_the_key(repo: Repo, dev: Repo, request_id: str, tmp_path: Path) -> None:
    def grant() -> Result:
        return run(repo.path, "approvals", "grant", request_id)

    _refused(grant(), "terminal", "agentos.approvalKey")
    key = tmp_path / "orchestrator.key"
    repo.config("agentos.approvalKey", str(key))
    _refused(grant(), "agentos.approvalKey", "confirm")
    confirm(repo.path)
    _refused(grant(), "cannot be read")
    key.touch()
    _refused(grant(), "is empty")
    for inside in (repo.path / "k", dev.path / "k", repo.git_dir / "k"):
        inside.write_text("secret")
        set_up(repo, "agentos.approvalKey", str(inside))
        _refused(grant(), "is inside of")
    (tmp_path / "link").symlink_to(dev.path / "k")
    for wrong, why in ((str(tmp_path / "link"), "is inside of"), ("k", "absolute"), (str(tmp_path), "empty, or not")):
        set_up(repo, "agentos.approvalKey", wrong)
        _refused(grant(), why)
    set_up(repo, "agentos.approvalKey", str(key))
    key.write_text("secret")
    done = grant()
    assert done.code == 0, str(done)
    assert run_ok(repo.path, "approvals", "show", request_id)["decided_by"] == "key"


def test_key_named_by_the_worktree_does_not_count(repo: Repo, dev: Repo, request_id: str, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("secret")
    repo.git("config", "extensions.worktreeConfig", "true")
    dev.git("config", "--worktree", "agentos.approvalKey", str(key))
    _refused(run(repo.path, "-C", str(dev.path), "approvals", "grant", request_id), "terminal")


def test_settings_say_how_long(repo: Repo, request_id: str) -> None:
    repo.config("agentos.approvalExpiry", "2")
    before = time.time()
    granted = at_terminal(repo.path, "--json", "approvals", "grant", request_id).json
    assert datetime.fromisoformat(granted["expires_at"]).timestamp() - before < 60


def test_unknown_requests_and_none_at_all(repo: Repo) -> None:
    assert run_ok(repo.path, "approvals", "list") == {"schema": "agentos.approval-list.v1", "approvals": []}
    assert not (repo.git_dir / "agentos" / "approvals").exists()
    assert run(repo.path, "approvals", "show", "abcdef").code == 1
    assert run(repo.path, "approvals", "show", "x y").code == 2
