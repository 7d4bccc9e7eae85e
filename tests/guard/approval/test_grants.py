"""What a grant is bound to: everything that decides what will run; and that nothing of a request or grant is forged.

A command is asked for and granted as it is; then one thing is changed, and the grant does not count; then it is as it
was, and the grant counts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from git_agentos.errors import GuardError
from git_agentos.guard import signing
from git_agentos.guard.approval import approvals, documents, requests
from git_agentos.guard.approval.approvals import ApprovalRequest, Store
from git_agentos.process import table
from git_agentos.util import times
from tests.support.agents import agent_worktree
from tests.support.guard.approvals import AGENT, Sleeper, approve, at_terminal, run_by
from tests.support.repo import Repo, git
from tests.support.tool import Result, run, run_ok

PUSH = ("push", "origin", "main")


@pytest.fixture
def dev(repo: Repo) -> Repo:
    made = agent_worktree(repo, "dev")
    for name in ("remote", "elsewhere"):
        Repo.init(repo.scratch / name, "--bare")
    repo.git("remote", "add", "origin", str(repo.scratch / "remote"))
    return made


@pytest.fixture
def store(repo: Repo) -> Store:
    return approvals.open_store(str(repo.git_dir), os.environ)


def asked(**changes: Any) -> ApprovalRequest:
    words = ("git", "merge", "other")
    made = ApprovalRequest(
        operation="merge",
        operations=("merge",),
        argv=words,
        command_digest=approvals.command_digest(words),
        cwd="/w/src",
        worktree="/w",
        head="1" * 40,
        branch="refs/heads/agent/dev",
        agent="dev",
        reason="because",
        instead="git stash",
        environment=("HOME=/home/ada", "PATH=/bin"),
        environment_digest=requests.digest_of(("HOME=/home/ada", "PATH=/bin")),
        configuration=("remote.origin.url=/there",),
        configuration_digest="2" * 64,
        text="git merge other",
        text_digest=requests.digest_of(["git merge other"]),
    )
    return made._replace(**changes)


# -- everything that decides what runs ---------------------------------------------------------------------------------


class Shim:
    """`git` below `guard exec`, in an agent's worktree."""

    def __init__(self, dev: Repo, repo: Repo) -> None:
        self.dev, self.repo = dev, repo

    def run(self, *words: str, env: dict[str, str] | None = None, text: str | None = None) -> Result:
        command = ["sh", "-c", text] if text is not None else ["git", *words]
        return run(self.dev.path, "guard", "exec", "--", *command, env=env)

    def granted(self, *words: str, env: dict[str, str] | None = None) -> dict[str, Any]:
        """The request for a command, granted."""
        done = self.run(*words, env=env)
        assert done.code == 3, str(done)
        [request] = run_ok(self.repo.path, "approvals", "list")["approvals"]
        assert at_terminal(self.repo.path, "approvals", "grant", request["id"]).code == 0
        return dict(request)


@pytest.fixture
def shim(dev: Repo, repo: Repo) -> Shim:
    return Shim(dev, repo)


def test_push_goes_where_it_was_granted_to(shim: Shim, dev: Repo, repo: Repo, tmp_path: Path) -> None:
    shim.granted(*PUSH)
    elsewhere = repo.scratch / "elsewhere"
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(f'[url "{elsewhere}"]\n\tpushInsteadOf = {repo.scratch / "remote"}\n')
    instead = f"url.{elsewhere}.insteadOf"
    ways: dict[str, dict[str, str]] = {
        "count": {
            "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "remote.origin.pushurl", "GIT_CONFIG_VALUE_0": str(elsewhere),
        },
        "parameters": {"GIT_CONFIG_PARAMETERS": f"'{instead}={repo.scratch / 'remote'}'"},
        "global": {"GIT_CONFIG_GLOBAL": str(home / ".gitconfig")},
        "home": {"HOME": str(home), "GIT_CONFIG_GLOBAL": str(home / ".gitconfig")},
        "xdg": {"XDG_CONFIG_HOME": str(home)},
        "ssh": {"GIT_SSH_COMMAND": "true"},
        "proxy": {"GIT_PROXY_COMMAND": "true"},
        "askpass": {"GIT_ASKPASS": "true"},
    }  # fmt: skip
    for name, env in ways.items():
        words = " ".join(f"{key}={_quoted(value)}" for key, value in env.items())
        done = shim.run(text=f"env {words} git {' '.join(PUSH)}")
        assert done.code == 3, name
    assert shim.run(text=f"PATH='{home}':$PATH; git {' '.join(PUSH)}").code == 3
    assert git(elsewhere, "for-each-ref") == git(repo.scratch / "remote", "for-each-ref") == b""
    assert shim.run(*PUSH).code == 0
    assert b"refs/heads/main" in git(repo.scratch / "remote", "for-each-ref")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def test_configuration_that_changes_after_the_grant(shim: Shim, dev: Repo, repo: Repo) -> None:
    request = shim.granted(*PUSH)
    assert f"remote.origin.url={repo.scratch / 'remote'}" in request["configuration"]
    elsewhere = str(repo.scratch / "elsewhere")
    for key, value in (
        ("remote.origin.pushurl", elsewhere),
        (f"url.{elsewhere}.pushInsteadOf", str(repo.scratch / "remote")),
        ("core.sshCommand", "true"),
        ("remote.origin.receivepack", "true"),
        ("push.followTags", "true"),
    ):
        repo.git("config", key, value)
        assert shim.run(*PUSH).code == 3, key
        repo.git("config", "--unset", key)
    # What does not decide anything about it is let be.
    repo.git("config", "branch.somebody.remote", "origin")
    repo.git("config", "agentos.approvalExpiry", "2h")
    assert shim.run(*PUSH).code == 0
    assert not (repo.scratch / "elsewhere/refs/heads/main").exists()


@pytest.mark.parametrize("name", ["GIT_EDITOR", "VISUAL", "EDITOR", "BASH_ENV", "LD_PRELOAD", "GIT_EXTERNAL_DIFF"])
def test_grant_runs_no_program_that_was_not_shown(shim: Shim, dev: Repo, repo: Repo, name: str) -> None:
    repo.git("branch", "precious")
    script = repo.scratch / "editor.sh"
    script.write_text(f"#!/bin/sh\n: >'{repo.scratch}/ran'\ngit -C '{repo.path}' branch -D precious\n")
    script.chmod(0o755)
    base = {"GIT_EDITOR": "true"}
    shim.granted("commit", "--amend", env=base)
    unset = "unset GIT_EDITOR;" if name in ("EDITOR", "VISUAL") else ""
    done = shim.run(text=f"{unset} export {name}='{script}'; git commit --amend", env=base)
    assert done.code != 0, str(done)
    assert repo.oid("refs/heads/precious")
    listed = run_ok(repo.path, "approvals", "list")["approvals"]
    assert [each for each in listed if f"{name}={script}" in each["environment"]]
    text = run(repo.path, "approvals", "show", listed[0]["id"]).out.decode()
    assert f"{name}={script}" in text
    assert name in run(repo.path, "approvals", "list").out.decode()


def test_path_counts_without_what_git_and_the_shim_put_first(
    dev: Repo, repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = run_by(AGENT, approve(dev.path), "merge", "other", cwd=dev.path, layer="harness")
    assert at_terminal(repo.path, "approvals", "grant", str(request.approval)).code == 0
    usual = os.environ["PATH"]

    def runs(*first: str) -> bool:
        monkeypatch.setenv("PATH", os.pathsep.join([*first, usual]))
        with Sleeper() as process:
            return run_by(AGENT, approve(dev.path), "merge", "other", cwd=dev.path, pid=process.pid).run

    assert not runs(str(repo.scratch))
    assert not runs("")
    assert runs(repo.text("--exec-path"), str(repo.git_dir / "agentos/guard/bin"))


def test_hook_that_was_edited_after_the_grant(dev: Repo, repo: Repo) -> None:
    hook = repo.git_dir / "hooks" / "commit-msg"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\n")
    hook.chmod(0o755)
    request = run_by(AGENT, approve(dev.path), "commit", "--amend", cwd=dev.path)
    assert at_terminal(repo.path, "approvals", "grant", str(request.approval)).code == 0
    with Sleeper() as process:

        def runs() -> bool:
            return run_by(AGENT, approve(dev.path), "commit", "--amend", cwd=dev.path, pid=process.pid).run

        hook.write_text("#!/bin/sh\ngit branch -D precious\n")
        assert not runs()
        hook.write_text("#!/bin/sh\n")
        (hook.parent / "pre-push").symlink_to(hook)
        assert not runs()
        (hook.parent / "pre-push").unlink()
        assert runs()


def test_grant_is_bound_to_the_todo_list_of_the_rebase(dev: Repo, repo: Repo) -> None:
    folder = Path(dev.text("rev-parse", "--absolute-git-dir")) / "rebase-merge"
    folder.mkdir()
    (folder / "git-rebase-todo").write_text("pick 1234567 one\n")
    request = run_by(AGENT, approve(dev.path), "rebase", "--continue", cwd=dev.path)
    assert at_terminal(repo.path, "approvals", "grant", str(request.approval)).code == 0
    (folder / "git-rebase-todo").write_text("exec rm -rf .\n")
    with Sleeper() as process:
        assert not run_by(AGENT, approve(dev.path), "rebase", "--continue", cwd=dev.path, pid=process.pid).run


def test_secrets_in_variables_and_configuration_are_nowhere(
    dev: Repo, repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "ghp_" + "a1B2" * 9
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", f"'http.extraHeader=Authorization: Bearer {secret}'")
    repo.git("config", "remote.origin.url", f"https://x:{secret}@example.com/r.git")
    request = str(run_by(AGENT, approve(dev.path), *PUSH, cwd=dev.path).approval)
    folder = repo.git_dir / "agentos" / "approvals"
    written = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert b"example.com" in written
    assert secret.encode() not in written
    assert at_terminal(repo.path, "approvals", "grant", request).code == 0
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", f"'http.extraHeader=Authorization: Bearer {secret[:-1]}3'")
    with Sleeper() as process:
        assert not run_by(AGENT, approve(dev.path), *PUSH, cwd=dev.path, pid=process.pid).run


# -- nothing is forged -------------------------------------------------------------------------------------------------


def _other(value: object) -> list[object]:
    """Values in the store of `value`: of its type, of another, none."""
    if isinstance(value, bool | int | float):
        return [value + 1, "x", None]
    if isinstance(value, str):
        return [value + "x", "", None, 7, [value]]
    if isinstance(value, list):
        return [[*value, "x"], [], None, "x", [7]]
    if isinstance(value, dict):
        return [{}, None, [value]]
    return ["x", 7, [value]]


def _changes(body: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    found = [(key, {**body, key: value}) for key in body for value in _other(body[key])]
    found += [(f"without {key}", {other: value for other, value in body.items() if other != key}) for key in body]
    found += [("more", {**body, "more": 1})]
    return [(what, changed) for what, changed in found if changed != body]


def _is_counted(store: Store, request: str) -> bool:
    """Whether the grant of a request can be used, in any way of looking for it."""
    found = approvals.find_grant(store, asked())
    shown = [each for each in approvals.read_all(store) if each.id == request and each.state == "granted"]
    assert (found is not None) == bool(shown)
    return found is not None


@pytest.mark.parametrize("kind", ["requests", "grants"])
@pytest.mark.parametrize("keeps_code", [True, False])
def test_every_field_of_a_granted_request_counts(store: Store, kind: str, keeps_code: bool) -> None:
    request = approvals.file_request(store, asked())
    approvals.grant(store, request.id, by="me")
    path = Path(documents.path(store, kind, request.id))
    good = path.read_bytes()
    assert _is_counted(store, request.id)
    for what, body in _changes(json.loads(good)):
        path.write_text(json.dumps(body if keeps_code else {**body, "mac": None}))
        assert not _is_counted(store, request.id), (what, body)
        assert not approvals.use(store, request, _me()), what
    for data in (b"", b"{", b"null", b"[]", b'"x"', bytes(1000)):
        path.write_bytes(data)
        assert not _is_counted(store, request.id), data
    path.unlink()
    assert not _is_counted(store, request.id)
    path.write_bytes(good)
    assert _is_counted(store, request.id)


def test_every_field_of_the_copy_in_a_grant_counts(store: Store) -> None:
    request = approvals.file_request(store, asked())
    approvals.grant(store, request.id, by="me")
    path = Path(documents.path(store, "grants", request.id))
    good = json.loads(path.read_bytes())
    for what, copy in _changes(good["request"]):
        path.write_text(json.dumps({**good, "request": copy}))
        assert not _is_counted(store, request.id), what


def test_unsigned_request_is_what_it_says_or_nothing(store: Store) -> None:
    """Every field, with the code taken away and with the id that the change would have."""
    sandbox = store._replace(key=None)
    request = approvals.file_request(sandbox, asked())
    assert approvals.find(store, request.id).signed is False
    path = Path(documents.path(store, "requests", request.id))
    good = path.read_bytes()
    harmless = ("created_at", "checkpoint", "mac", "without mac", "more")
    for what, body in _changes(json.loads(good)):
        if what not in harmless:
            path.write_text(json.dumps({**body, "mac": None}))
            assert approvals.read_all(store) == [], what
    path.unlink()
    evil = ("git", "push", "origin", "HEAD:main")
    for forged in (
        asked(command_digest=approvals.command_digest(evil)),
        asked(environment_digest=requests.digest_of(("GIT_SSH_COMMAND=evil",))),
        asked(text_digest=requests.digest_of(["git push"])),
        asked(text=None),
        asked(argv=("git", "merge", "[redacted]"), command_digest=approvals.command_digest(evil)),
        asked(environment=("HOME=/home/ada",)),
    ):
        id_ = requests.request_id(forged, 0)
        body = {**requests.to_document(forged), "number": 0, "created_at": times.seconds_to_text(0)}
        assert documents.create(sandbox, "requests", id_, body)
        assert approvals.read_all(store) == [], forged
        with pytest.raises(GuardError):
            approvals.grant(store, id_, by="me")


def test_request_shown_is_the_request_granted(store: Store) -> None:
    """A request is exchanged between being shown and being granted: it is another one then."""
    request = approvals.file_request(store, asked())
    evil = asked(argv=("git", "push"), command_digest=approvals.command_digest(("git", "push")))
    other = approvals.file_request(store, evil)
    path = Path(documents.path(store, "requests", request.id))
    path.write_bytes(Path(documents.path(store, "requests", other.id)).read_bytes())
    with pytest.raises(GuardError, match="changed"):
        approvals.grant(store, request.id, by="me")
    assert approvals.find_grant(store, evil) is None


def test_denied_stays_denied_without_its_request(store: Store) -> None:
    request = approvals.file_request(store, asked())
    approvals.deny(store, request.id, by="me")
    Path(documents.path(store, "requests", request.id)).unlink()
    again = approvals.file_request(store, asked(reason="another reason"))
    assert (again.id, again.state) == (request.id, "denied")


@pytest.mark.parametrize(
    "change",
    [
        {"argv": ("git", "merge", "another"), "command_digest": approvals.command_digest(("git", "merge", "another"))},
        {"command_digest": "0" * 64}, {"operation": "push"}, {"operations": ("merge", "push")}, {"cwd": "/w/docs"},
        {"worktree": "/v"}, {"head": None}, {"branch": None}, {"agent": "other"}, {"environment": ()},
        {"environment_digest": "0" * 64}, {"configuration": ()}, {"configuration_digest": "0" * 64}, {"text": "x"},
        {"text_digest": "0" * 64},
    ],
)  # fmt: skip
def test_grant_is_for_this_and_nothing_else(store: Store, change: dict[str, Any]) -> None:
    request = approvals.file_request(store, asked())
    approvals.grant(store, request.id, by="me")
    assert approvals.find_grant(store, asked(**change)) is None
    assert approvals.find_grant(store, asked(reason="3 files", instead="", checkpoint="4" * 40)) is not None


def test_pass_of_another_repository_is_none_here(store: Store, make_repo: Callable[[str], Repo]) -> None:
    other = approvals.open_store(str(make_repo("second").git_dir), os.environ)
    request = approvals.file_request(other, asked())
    granted = approvals.grant(other, request.id, by="me")
    assert approvals.use(other, granted, _me())
    for kind in ("requests", "grants", "running", "used"):
        for path in (Path(other.folder) / kind).iterdir():
            (Path(store.folder) / kind / path.name).write_bytes(path.read_bytes())
    assert approvals.active_grant(str(Path(other.folder).parent.parent), os.getpid(), os.environ) is not None
    assert approvals.active_grant(str(Path(store.folder).parent.parent), os.getpid(), os.environ) is None


def test_ids_are_long(store: Store) -> None:
    assert len(approvals.file_request(store, asked()).id) * 4 >= 128


def test_request_that_cannot_be_shown_is_refused(store: Store) -> None:
    sandbox = store._replace(key=None)
    words = ("git", "push", "https://[redacted]@example.com")
    with pytest.raises(GuardError, match="secret") as error:
        approvals.file_request(sandbox, asked(argv=words, command_digest="5" * 64))
    assert error.value.hint
    with pytest.raises(GuardError, match="cannot be filed"):
        approvals.file_request(store, asked(argv=("git", "x" * (2 << 20))))
    assert approvals.read_all(store) == []
    assert signing.problem(os.environ) is None


def _me() -> Any:

    return table.identify(os.getpid())
