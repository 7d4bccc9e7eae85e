"""What the guard wrote, damaged: a sentence and no traceback, and `doctor --fix` mends it or says what to do."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from git_agentos.guard import signing
from git_agentos.guard.approval import approvals, documents
from git_agentos.guard.harness import backup, integration
from git_agentos.guard.setup import launcher, scripts
from tests.support.agents import agent_worktree
from tests.support.guard.approvals import AGENT, approve, at_terminal, run_by
from tests.support.guard.guarded_worktree import guarded, location
from tests.support.repo import Repo
from tests.support.state import complete_state, differences
from tests.support.tool import Result, run, run_ok


def _instead(make: Callable[[Path], object]) -> Callable[[Path], object]:
    def damage(path: Path) -> None:
        path.unlink()
        make(path)

    return damage


DAMAGES: dict[str, Callable[[Path], object]] = {
    "emptied": lambda path: path.write_bytes(b""),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-9]),
    "folder": _instead(lambda path: (path / "in" / "it").mkdir(parents=True)),
    "link": _instead(lambda path: path.symlink_to("/etc/passwd")),
    "null": lambda path: path.write_bytes(b"null\n"),
    "deep": lambda path: path.write_bytes(b"[" * 100_000),
    "zeros": lambda path: path.write_bytes(bytes(10 << 20)),
    "pipe": _instead(os.mkfifo),
}


@pytest.fixture
def key() -> Iterator[Path]:
    """The user's key, which is as it was afterwards."""
    path = Path(signing.folder(os.environ)) / "key"
    assert signing.key(os.environ)
    data = path.read_bytes()
    yield path
    shutil.rmtree(path.parent)
    path.parent.mkdir(mode=0o700)
    path.write_bytes(data)
    path.chmod(0o600)


def _says(done: Result) -> None:
    assert done.code in (0, 1, 3, 4), str(done)
    assert b"Traceback" not in done.err + done.out
    assert b"this is a bug" not in done.err + done.out
    assert done.code == 0 or done.err.strip(), str(done)


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_documents_of_approvals(repo: Repo, damage: str) -> None:
    dev = agent_worktree(repo, "dev")
    first = str(run_by(AGENT, approve(dev.path), "merge", "one", cwd=dev.path).approval)
    second = str(run_by(AGENT, approve(dev.path), "merge", "two", cwd=dev.path).approval)
    store = approvals.open_store(str(repo.git_dir), os.environ)
    approvals.grant(store, second, by="me")
    for kind, name in (("requests", first), ("grants", second)):
        DAMAGES[damage](Path(documents.path(store, kind, name)))
    for argv in (("approvals", "show", first), ("status",)):
        _says(run(repo.path, *argv))
    # What is damaged does not count, and the same can be asked for again.
    assert [(each.id, each.state) for each in approvals.read_all(store)] == [(second, "pending")]
    again = run_by(AGENT, approve(dev.path), "merge", "one", cwd=dev.path)
    assert (again.run, again.approval == first) == (False, False)
    codes = [each["code"] for each in run(repo.path, "--json", "doctor", "--fix").json["findings"]]
    assert codes.count("guard-approvals") == 2
    assert "guard-approvals" not in [each["code"] for each in run(repo.path, "--json", "doctor").json["findings"]]
    approvals.grant(store, second, by="me")


@pytest.mark.parametrize("kind", ["", *documents.FOLDERS])
def test_folder_of_approvals_that_is_a_file(repo: Repo, kind: str) -> None:
    dev = agent_worktree(repo, "dev")
    run_by(AGENT, approve(dev.path), "merge", "one", cwd=dev.path)
    folder = repo.git_dir / "agentos" / "approvals" / kind
    shutil.rmtree(folder)
    folder.write_bytes(b"")
    for argv in (("approvals", "list"), ("status",), ("approvals", "show", "abcd1234")):
        _says(run(repo.path, *argv))
    done = run(dev.path, "guard", "exec", "--", "git", "merge", "other")
    assert done.code == 3, str(done)
    run(repo.path, "doctor", "--fix")
    assert not run_by(AGENT, approve(dev.path), "merge", "one", cwd=dev.path).run
    assert len(run_ok(repo.path, "approvals", "list")["approvals"]) == 1


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("hooks/pre-commit", "folder"), ("hooks/pre-commit", "pipe"), ("manifest.json", "folder"),
        ("hooks/guard.sh", "pipe"), ("hooks/fsmonitor", "pipe"),
        ("files.json", "zeros"), ("files.json", "folder"),
    ],
)  # fmt: skip
def test_damaged_files_of_the_guard(repo: Repo, name: str, damage: str) -> None:
    dev = guarded(repo)
    path = Path(scripts.folder(str(repo.git_dir))) / name
    DAMAGES[damage](path)
    _says(run(repo.path, "guard", "status", "dev"))
    _says(run(repo.path, "doctor", "--fix"))
    _says(run(repo.path, "guard", "enable", "dev"))
    findings = run_ok(repo.path, "guard", "status", "dev")["findings"]
    assert not [each for each in findings if each["code"].startswith("guard-")], findings
    assert scripts.changed_files(location(dev).common_dir) == []


@pytest.mark.parametrize("damage", ["pipe", "emptied", "truncated", "folder"])
def test_git_ends_and_loses_nothing_where_the_shared_script_is_damaged(repo: Repo, damage: str) -> None:
    dev = guarded(repo)
    dev.write("notes.txt", "work\n")
    before = complete_state(dev.path)
    script = Path(scripts.common_script(str(repo.git_dir)))
    sound = script.read_bytes()
    DAMAGES[damage](script)
    for argv in (["reset", "--hard"], ["clean", "-fdx"], ["commit", "-qam", "work"], ["branch", "-f", "main", "HEAD"]):
        done = subprocess.run(["git", *argv], cwd=dev.path, capture_output=True, check=False, timeout=60)
        assert done.returncode != 0, argv
    shutil.rmtree(script) if script.is_dir() else script.unlink()
    script.write_bytes(sound)
    assert differences(before, complete_state(dev.path)) == []


def test_forged_files_json_deletes_no_foreign_file(repo: Repo) -> None:
    dev = guarded(repo)
    record = Path(scripts.folder(str(repo.git_dir))) / "files.json"
    body = json.loads(record.read_text())
    body["files"]["../../../readme.txt"] = ["0" * 64, 420]
    body["files"]["hooks/../../../config"] = ["0" * 64, 420]
    record.write_text(json.dumps(body))
    assert scripts.changed_files(str(repo.git_dir)) == [str(record)]
    before = repo.read("readme.txt")
    scripts.install(location(dev))
    assert (repo.read("readme.txt"), (repo.git_dir / "config").exists()) == (before, True)


@pytest.mark.parametrize("damage", ["emptied", "folder", "zeros", "pipe", "removed"])
def test_damaged_key_hides_no_edited_hook(repo: Repo, key: Path, damage: str) -> None:
    dev = guarded(repo)
    hook = Path(scripts.hooks_dir(str(repo.git_dir))) / "pre-commit"
    hook.write_text("#!/bin/sh\n")
    record = Path(scripts.folder(str(repo.git_dir))) / "files.json"
    DAMAGES.get(damage, Path.unlink)(key)
    body = json.loads(record.read_text())
    body["files"]["hooks/pre-commit"][0] = hashlib.sha256(hook.read_bytes()).hexdigest()
    record.write_text(json.dumps(body))
    findings = run_ok(repo.path, "guard", "status", "dev")["findings"]
    assert "guard-tampered" in [each["code"] for each in findings], findings
    _says(run(repo.path, "status"))
    done = run(repo.path, "--json", "doctor", "--fix").json["findings"]
    assert damage == "removed" or "guard-key" in [each["code"] for each in done]
    assert scripts.changed_files(str(repo.git_dir)) == []
    assert hook.read_text() != "#!/bin/sh\n"
    assert signing.problem(os.environ) is None
    assert dev.path.is_dir()


def test_key_writable_by_others_stops_no_reading_command(repo: Repo, key: Path) -> None:
    dev = agent_worktree(repo, "dev")
    request = str(run_by(AGENT, approve(dev.path), "merge", "one", cwd=dev.path).approval)
    key.chmod(0o660)
    for argv in (("status",), ("approvals", "list"), ("approvals", "show", request)):
        done = run(repo.path, *argv)
        assert done.code == 0, str(done)
        assert b"others may write" in done.err
        assert request.encode() in done.out or argv == ("status",)
    granted = at_terminal(repo.path, "approvals", "grant", request)
    assert granted.code == 1
    assert b"chmod go-w" in granted.err
    [finding] = [each for each in run(repo.path, "--json", "doctor").json["findings"] if each["code"] == "guard-key"]
    assert "others may write" in finding["message"]


def test_sample_of_gits_is_not_a_hook_manager(repo: Repo) -> None:
    hook = repo.git_dir / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text('#!/bin/sh\n# To enable this hook, rename this file to "pre-commit".\n')
    hook.chmod(0o755)
    assert run_ok(repo.path, "hooks", "status")["manager"] is None
    hook.write_text("#!/usr/bin/env bash\n# File generated by pre-commit: https://pre-commit.com\n")
    assert run_ok(repo.path, "hooks", "status")["manager"] == "pre-commit"


def test_configuration_of_a_worktree_that_is_a_folder(repo: Repo) -> None:
    dev = guarded(repo)
    own = Path(dev.text("rev-parse", "--absolute-git-dir")) / "config.worktree"
    own.unlink()
    own.mkdir()
    for argv in (("guard", "disable", "dev"), ("worktree", "list")):
        _says(run(repo.path, *argv))


# -- settings of harnesses ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_record_of_an_integration(repo: Repo, damage: str) -> None:
    settings = repo.path / ".gemini" / "settings.json"
    settings.parent.mkdir()
    settings.write_text('{"theme": "dark"}\n')
    integration.add("gemini", str(repo.path), os.environ)
    DAMAGES[damage](Path(backup.record_path(str(settings), os.environ)))
    assert integration.add("gemini", str(repo.path), os.environ).integrated
    assert integration.remove("gemini", str(repo.path), os.environ).changed
    assert json.loads(settings.read_text()) == {"theme": "dark"}


def test_settings_that_are_a_folder(repo: Repo) -> None:
    (repo.path / ".gemini" / "settings.json").mkdir(parents=True)
    done = run(repo.path, "guard", "integrate", "gemini")
    assert done.code == 1
    assert b"settings.json' is not a regular file" in done.err


@pytest.mark.parametrize("name", ["claude-code", "cursor", "opencode"])
@pytest.mark.parametrize("edited", [True, False])
@pytest.mark.parametrize("other", [True, False])
def test_remove_brings_no_older_hooks_of_ours_back(repo: Repo, name: str, edited: bool, other: bool) -> None:
    """Ours were put in by another Python; the file was edited since, or its record is gone."""
    done = integration.add(name, str(repo.path), os.environ)
    path = Path(done.path)
    older = path.read_text().replace(launcher.command().split("'")[1], "/gone/python")
    if other and name != "opencode":
        body = json.loads(older)
        body["theirs"] = True
        older = json.dumps(body)
    path.write_text(older)
    if not edited:
        os.unlink(backup.record_path(str(path), os.environ))
    assert integration.add(name, str(repo.path), os.environ).changed
    assert integration.remove(name, str(repo.path), os.environ).changed
    if other and name != "opencode":
        left = json.loads(path.read_text())
        assert left.pop("theirs") is True
        assert "guard harness" not in path.read_text()
    else:
        assert not path.exists()
