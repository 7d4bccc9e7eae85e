"""`guard enable`, `disable`, `status`: what is set in configuration, taken away byte for byte, and what acts."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from git_agentos import open_workspace
from git_agentos.errors import GuardError, WorktreeError
from git_agentos.findings import Finding
from git_agentos.git import lockfile
from git_agentos.git.location import Location, locate
from git_agentos.guard.diagnosis import checks, probe
from git_agentos.guard.harness import integration
from git_agentos.guard.setup import activation, manifest, own_files, repository_hooks, scripts
from git_agentos.worktree import creation, removal
from tests.support.agents import agent_worktree
from tests.support.json_reference import check_document
from tests.support.repo import Repo, git_run
from tests.support.snapshot import assert_nothing_left, snapshot
from tests.support.tool import run, run_ok

AGENTOS_REFS = ("core.hookspath", "core.fsmonitor", "core.fsmonitorhookversion")


def location(repo: Repo) -> Location:
    return locate(str(repo.path), use_environment=False)


def config(repo: Repo) -> bytes:
    """The configuration that all worktrees share, as it is."""
    return (Path(location(repo).common_dir) / "config").read_bytes()


def own_config(repo: Repo) -> bytes | None:
    path = Path(location(repo).git_dir) / "config.worktree"
    return path.read_bytes() if path.exists() else None


def seen(repo: Repo, key: str) -> str | None:
    """What git itself sees."""
    done = git_run(repo.path, "config", "--get", key)
    return done.stdout.decode().rstrip("\n") if done.returncode == 0 else None


def guarded(repo: Repo) -> bool:
    return activation.is_enabled(location(repo))


# -- what is set -------------------------------------------------------------------------------------------------------


def test_one_worktree_is_guarded_and_no_other(repo: Repo) -> None:
    one, other = agent_worktree(repo, "one"), agent_worktree(repo, "other")
    activation.enable(location(one))
    hooks = scripts.hooks_dir(str(repo.git_dir))
    assert (seen(one, AGENTOS_REFS[0]), seen(one, AGENTOS_REFS[1]), seen(one, AGENTOS_REFS[2])) == (
        hooks,
        f"{hooks}/fsmonitor",
        "2",
    )
    for each in (repo, other):
        assert [seen(each, key) for key in AGENTOS_REFS] == [None, None, None]
    assert [guarded(each) for each in (repo, one, other)] == [False, True, False]


def test_disable_takes_away_exactly_what_was_added(repo: Repo) -> None:
    made = agent_worktree(repo, "dev")
    before, everything = config(repo), snapshot(repo)
    activation.enable(location(made))
    activation.enable(location(made))  # again: nothing more
    assert config(repo).count(b"worktreeConfig") == 1
    assert own_config(made) is not None
    activation.disable(location(made))
    assert (config(repo), own_config(made)) == (before, None)
    assert_nothing_left(everything, repo)


@pytest.mark.parametrize("text", [b"[core]\n\tbare = false", b"# a comment\n[user]\n\tname = x\n", b"[a]\n\n\n", b""])
def test_enable_and_disable_restore_own_configuration(repo: Repo, text: bytes) -> None:
    made = agent_worktree(repo, "dev")
    repo.config("extensions.worktreeConfig", "true")
    path = Path(location(made).git_dir) / "config.worktree"
    path.write_bytes(text)
    before = config(repo)
    activation.enable(location(made))
    assert seen(made, "core.hooksPath") == scripts.hooks_dir(str(repo.git_dir))
    activation.disable(location(made))
    assert (path.read_bytes(), config(repo)) == (text, before)


def test_configuration_set_by_others_meanwhile_stays(repo: Repo) -> None:
    made = agent_worktree(repo, "dev")
    made_before = own_config(made)
    activation.enable(location(made))
    made.git("config", "--worktree", "core.editor", "vi")  # git puts it into our section
    made.git("config", "--worktree", "user.name", "Dev")
    repo.git("remote", "add", "origin", "elsewhere")
    repo.config("core.autocrlf", "false")
    activation.disable(location(made))
    assert made_before is None
    assert git_run(made.path, "config", "--worktree", "--list").stdout == b"core.editor=vi\nuser.name=Dev\n"
    assert [seen(made, key) for key in AGENTOS_REFS] == [None, None, None]
    assert (seen(repo, "remote.origin.url"), seen(repo, "core.autocrlf")) == ("elsewhere", "false")
    # Somebody's own configuration is read by it.
    assert seen(repo, "extensions.worktreeConfig") == "true"
    assert b"git-agentos" not in (own_config(made) or b"")


def test_a_value_of_the_users_in_the_same_file_comes_back(repo: Repo) -> None:
    made = agent_worktree(repo, "dev")
    repo.config("extensions.worktreeConfig", "true")
    made.git("config", "--worktree", "core.hooksPath", "/their/hooks")
    activation.enable(location(made))
    assert seen(made, "core.hooksPath") == scripts.hooks_dir(str(repo.git_dir))
    made.git("config", "--worktree", "user.name", "Dev")
    activation.disable(location(made))
    assert seen(made, "core.hooksPath") == "/their/hooks"


def test_shared_settings_stay_while_another_needs_them(repo: Repo) -> None:
    one, two = agent_worktree(repo, "one"), agent_worktree(repo, "two")
    before = config(repo)
    activation.enable(location(one))
    activation.enable(location(two))
    activation.disable(location(one))
    assert (guarded(one), guarded(two)) == (False, True)
    assert seen(two, "core.hooksPath") is not None
    activation.disable(location(two))
    assert config(repo) == before
    assert not os.path.lexists(scripts.folder(str(repo.git_dir)))


def test_shared_core_bare_is_moved_to_the_main_worktree(repo: Repo) -> None:
    """core.bare in the shared configuration would make every worktree bare once each has one of its own."""
    bare = repo.scratch / "bare.git"
    repo.git("clone", "-q", "--bare", str(repo.path), str(bare))
    subprocess.run(["git", "worktree", "add", "-q", str(repo.scratch / "tree")], cwd=bare, check=True)
    tree = Repo(repo.scratch / "tree")
    before = (bare / "config").read_bytes()
    activation.enable(location(tree))
    assert tree.text("rev-parse", "--is-bare-repository") == "false"
    assert git_run(bare, "rev-parse", "--is-bare-repository").stdout == b"true\n"
    assert tree.git("status", "--porcelain") == b""
    activation.disable(location(tree))
    assert (bare / "config").read_bytes() == before
    assert not (bare / "config.worktree").exists()


def test_core_worktree_moves_and_comes_back(repo: Repo) -> None:
    main = str(repo.path)
    repo.config("core.worktree", main)
    made = agent_worktree(repo, "dev")
    before = config(repo)
    activation.enable(location(made))
    assert made.text("rev-parse", "--show-toplevel") == str(made.path)
    assert repo.text("rev-parse", "--show-toplevel") == main
    repo.config("user.email", "x@y")  # edited in between
    activation.disable(location(made))
    assert seen(repo, "core.worktree") == main
    assert (repo.git_dir / "config.worktree").exists() is False
    repo.git("config", "--unset", "user.email")
    assert seen(repo, "extensions.worktreeConfig") is None
    assert sorted(config(repo).split()) == sorted(before.split())


def test_a_path_that_sh_would_take_apart(make_repo: Any) -> None:
    repo: Repo = make_repo("a $(touch x); 'b' &")
    made = agent_worktree(repo, "dev")
    made.write("readme.txt", "not committed\n")
    activation.enable(location(made))
    done = git_run(made.path, "reset", "--hard", env={"AGENTOS_AGENT_ID": "dev"})
    assert done.returncode != 0
    assert made.read("readme.txt") == b"not committed\n"
    activation.disable(location(made))
    assert [seen(made, key) for key in AGENTOS_REFS] == [None, None, None]


def test_a_worktree_that_git_makes_from_a_guarded_one(repo: Repo) -> None:
    """git copies config.worktree: what the agent makes is guarded as well, and nothing of it is left in the end."""
    made = agent_worktree(repo, "dev")
    before = config(repo)
    activation.enable(location(made))
    beside = made.path.parent / "beside"
    made.git("worktree", "add", "-q", "--detach", str(beside), env={"AGENTOS_AGENT_ID": ""})
    assert seen(Repo(beside), "core.hooksPath") == scripts.hooks_dir(str(repo.git_dir))
    activation.disable(location(made))
    assert seen(Repo(beside), "core.hooksPath") is None
    assert config(repo) == before


def test_the_main_worktree_alone(repo: Repo) -> None:
    """An agent may work there, too; other worktrees and people are not affected."""
    other = agent_worktree(repo, "other")
    before = config(repo)
    activation.enable(location(repo))
    assert ([seen(other, key) for key in AGENTOS_REFS], guarded(other)) == ([None, None, None], False)
    repo.write("notes.txt", "not committed\n")
    assert git_run(repo.path, "checkout", "--", "notes.txt", env={"AGENTOS_AGENT_ID": "dev"}).returncode != 0
    assert repo.read("notes.txt") == b"not committed\n"
    assert git_run(repo.path, "checkout", "--", "notes.txt").returncode == 0
    activation.disable(location(repo))
    assert (config(repo), own_config(repo)) == (before, None)


# -- making and ending worktrees ---------------------------------------------------------------------------------------


def test_worktree_create_guards(repo: Repo) -> None:
    before = config(repo)
    made = run_ok(repo.path, "worktree", "create", "dev")
    there = Repo(Path(made["path"]))
    assert guarded(there)
    run_ok(repo.path, "worktree", "create", "free", "--no-guard")
    free = Repo(there.path.parent / "free")
    assert not guarded(free)
    assert seen(free, "core.hooksPath") is None
    run_ok(repo.path, "worktree", "remove", "dev")
    assert config(repo) == before
    assert not os.path.lexists(scripts.folder(str(repo.git_dir)))


def test_every_way_to_make_one(repo: Repo) -> None:
    context = open_workspace(repo.path).context
    creation.create(context, "dev")
    saved = open_workspace(repo.path.parent / "repo.worktrees" / "dev").checkpoint("now")
    run_ok(repo.path, "restore", saved.id, "--agent", "dev", "--worktree", "copy")
    run_ok(repo.path, "worktree", "archive", "dev")
    creation.create(context, "dev", revive=True)
    for id_ in ("dev", "copy"):
        assert guarded(Repo(repo.path.parent / "repo.worktrees" / id_))
    creation.create(open_workspace(repo.path.parent / "repo.worktrees" / "dev").context, "inner", guard=False)
    assert seen(Repo(repo.path.parent / "repo.worktrees" / "inner"), "core.hooksPath") is None


def test_a_creation_that_fails_leaves_the_guard_as_it_was(repo: Repo) -> None:
    creation.create(open_workspace(repo.path).context, "first")
    before = snapshot(repo)
    repo.config("agentos.setup", "exit 1")
    with pytest.raises(WorktreeError):
        creation.create(open_workspace(repo.path).context, "second")
    repo.git("config", "--unset", "agentos.setup")
    assert_nothing_left(before, repo)


def test_a_worktree_that_plain_git_removed(repo: Repo) -> None:
    before = config(repo)
    context = open_workspace(repo.path).context
    creation.create(context, "gone")
    repo.git("worktree", "remove", "--force", str(repo.path.parent / "repo.worktrees" / "gone"))
    creation.create(context, "dev")
    removal.remove(context, "dev")
    assert config(repo) == before


def test_the_name_of_a_worktree_that_is_gone_is_not_guarded_again(repo: Repo) -> None:
    made = agent_worktree(repo, "dev")
    activation.enable(location(made))
    repo.git("worktree", "remove", "--force", str(made.path))
    repo.git("branch", "-D", "agent/dev")
    assert not guarded(agent_worktree(repo, "dev"))


def test_concurrent_enable_and_disable(repo: Repo) -> None:
    made = [agent_worktree(repo, f"dev-{n}") for n in range(6)]
    before = config(repo)

    def all_at_once(word: str) -> None:
        words = [sys.executable, "-m", "git_agentos", "guard", word, "-q"]
        children = [subprocess.Popen(words, cwd=each.path, stdout=subprocess.DEVNULL) for each in made]
        assert [child.wait() for child in children] == [0] * len(made)

    for each in made:
        activation.enable(location(each))
        activation.disable(location(each))
    assert config(repo) == before
    all_at_once("enable")
    assert all(guarded(each) for each in made)
    assert config(repo).count(b"worktreeConfig") == 1


# -- interrupted -----------------------------------------------------------------------------------------------------


class _Killed(BaseException):
    """The process ends here."""


_STEPS = [(own_files, "write"), (lockfile, "commit"), (manifest, "write")]


@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize("step", range(7))
@pytest.mark.parametrize("operation", ["enable", "disable", "install", "uninstall"])
def test_killed_at_any_step(repo: Repo, operation: str, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever was done by then, doing it again does it, and undoing it leaves nothing."""
    made = agent_worktree(repo, "dev")
    before = (config(repo), own_config(made))
    act = {
        "enable": lambda: activation.enable(location(made)),
        "disable": lambda: activation.disable(location(made)),
        "install": lambda: repository_hooks.install(location(repo), save=True),
        "uninstall": lambda: repository_hooks.uninstall(location(repo)),
    }
    undone = {"enable": "disable", "disable": "enable", "install": "uninstall", "uninstall": "install"}
    on = operation in ("enable", "install")
    if not on:
        act[undone[operation]]()
    left = iter(range(step))

    def killed(function: Any) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            if isinstance(args[0], str) and f"{os.sep}hooks{os.sep}" in args[0]:
                return function(*args, **options)  # one script is like the other
            if next(left, None) is None:
                if isinstance(args[0], lockfile.LockFile):
                    os.close(args[0].descriptor)  # as the lock of a process that is gone
                raise _Killed
            return function(*args, **options)

        return call

    with monkeypatch.context() as patch:
        for module, name in _STEPS:
            patch.setattr(module, name, killed(getattr(module, name)))
        with contextlib.suppress(_Killed):
            act[operation]()
    act[operation]()
    if on:
        assert activation.tampered(location(made)) == []
        assert seen(made, "core.hooksPath") == scripts.hooks_dir(str(repo.git_dir))
        act[undone[operation]]()
    assert (config(repo), own_config(made)) == before
    assert not os.path.lexists(scripts.folder(str(repo.git_dir)))


# -- whether it acts ---------------------------------------------------------------------------------------------------


def layers(found: checks.GuardStatus) -> dict[str, bool]:
    return {each.name: each.acts for each in found.layers}


def codes(findings: list[Finding]) -> list[str]:
    return [each.code for each in findings]


def status(repo: Repo) -> checks.GuardStatus:
    return checks.guard_status(location(repo), os.environ)


def test_status_tries_the_layers(repo: Repo) -> None:
    made = agent_worktree(repo, "dev")
    assert (status(made).enabled, status(made).layers) == (False, [])
    branches, before = repo.git("for-each-ref"), config(repo)
    activation.enable(location(made))
    found = status(made)
    assert (found.id, found.enabled, found.mode, found.everyone) == ("dev", True, "strict", False)
    acting = layers(found)
    assert (acting["fsmonitor"], acting["hook"]) == (True, True), found.layers
    # No harness asks in this worktree, until one does.
    assert not acting["harness"]
    integration.add("codex", str(made.path), os.environ)
    assert layers(status(made))["harness"]
    integration.remove("codex", str(made.path), os.environ)
    assert not layers(status(made))["harness"]
    shim = next(each for each in found.layers if each.name == "shim")
    assert not shim.acts  # nobody runs us below it
    assert (shim.reason or "").startswith("this was not started by 'git agentos guard exec'")
    below = {**os.environ, "PATH": f"{scripts.shim_dir(str(repo.git_dir))}:{os.environ['PATH']}"}
    assert layers(checks.guard_status(location(made), below))["shim"]
    assert found.findings == []
    assert sorted(os.listdir(Path(location(made).git_dir) / "agentos")) == ["id", "worktree.json"]
    activation.disable(location(made))
    assert (repo.git("for-each-ref"), config(repo)) == (branches, before)


def test_a_script_that_is_not_executable_is_noticed(repo: Repo) -> None:
    made = agent_worktree(repo, "dev")
    activation.enable(location(made))
    script = Path(scripts.hooks_dir(str(repo.git_dir))) / "reference-transaction"
    script.chmod(0o644)
    found = status(made)
    assert not layers(found)["hook"]
    assert {"guard-tampered", "guard-layer"} <= set(codes(found.findings))


@pytest.mark.parametrize("name", ["fsmonitor", "reference-transaction", "guard.sh"])
def test_an_edited_script_is_noticed_and_mended(repo: Repo, name: str) -> None:
    made = agent_worktree(repo, "dev")
    activation.enable(location(made))
    script = Path(scripts.hooks_dir(str(repo.git_dir))) / name
    good = script.read_bytes()
    script.write_text("#!/bin/sh\nexit 0\n")
    assert activation.tampered(location(made)) == [f"'{script}' is not what git-agentos placed there"]
    found = status(made)
    assert not all(layers(found)[each] for each in ("fsmonitor", "hook"))
    fixed = [each for each in open_workspace(made.path).doctor(fix=True) if each.code == "guard-tampered"]
    assert [each.fixed for each in fixed] == [True]
    assert script.read_bytes() == good
    assert activation.tampered(location(made)) == []


def test_an_agent_that_edits_the_records_too_is_noticed(repo: Repo) -> None:
    """It can write to the git directory, but it has not the key that the records are signed with."""
    made = agent_worktree(repo, "dev")
    activation.enable(location(made))
    top = Path(scripts.folder(str(repo.git_dir)))
    record = json.loads((top / "files.json").read_text())
    record["files"].pop("hooks/reference-transaction")
    (top / "files.json").write_text(json.dumps(record))
    (top / "hooks" / "reference-transaction").unlink()
    assert activation.tampered(location(made)) == [f"'{top}/files.json' is not what git-agentos placed there"]
    listed = json.loads((top / "manifest.json").read_text())
    listed["guard"]["worktrees"] = {}
    (top / "manifest.json").write_text(json.dumps(listed))
    assert not manifest.read(str(repo.git_dir)).signed
    assert "guard-tampered" in codes(status(made).findings)
    (top / "manifest.json").unlink()
    assert "guard-tampered" in codes(status(made).findings)


@pytest.mark.parametrize(
    "edit",
    [
        ("config", "--worktree", "--unset", "core.hooksPath"),
        ("config", "--worktree", "core.fsmonitor", "false"),
        ("config", "--worktree", "--add", "core.hooksPath", "/dev/null"),
        ("config", "--unset", "extensions.worktreeConfig"),
    ],
    ids=" ".join,
)
def test_an_edited_configuration_is_noticed(repo: Repo, edit: tuple[str, ...]) -> None:
    made = agent_worktree(repo, "dev")
    activation.enable(location(made))
    assert activation.tampered(location(made)) == []
    repo_side = edit[1] != "--worktree"
    (repo if repo_side else made).git("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=", *edit)
    assert len(activation.tampered(location(made))) == 1
    found = status(made)
    assert "guard-tampered" in codes(found.findings)
    activation.disable(location(made))
    activation.enable(location(made))
    assert activation.tampered(location(made)) == []


def test_a_repository_that_was_moved(repo: Repo) -> None:
    made = agent_worktree(repo, "dev")
    activation.enable(location(made))
    moved = Repo(repo.path.parent / "elsewhere")
    shutil.move(repo.path, moved.path)
    moved.git("worktree", "repair", str(made.path))
    assert "guard-moved" in codes(status(made).findings)
    open_workspace(made.path).doctor(fix=True)
    assert seen(made, "core.hooksPath") == scripts.hooks_dir(str(moved.git_dir))
    found = status(made)
    assert (layers(found)["fsmonitor"], layers(found)["hook"], found.findings) == (True, True, [])


def test_of_many_worktrees_the_manifest_is_read_once(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """The watch daemon asks every few seconds, and the manifest grows with the worktrees."""
    made = [agent_worktree(repo, f"dev-{n}") for n in range(4)]
    for each in made[:2]:
        activation.enable(location(each))
    reads: list[str] = []
    read = manifest.read

    def noted(common_dir: str) -> manifest.Manifest:
        reads.append(common_dir)
        return read(common_dir)

    monkeypatch.setattr(manifest, "read", noted)
    assert activation.enabled([location(each) for each in (repo, *made)]) == [location(each) for each in made[:2]]
    assert reads == [str(repo.git_dir)]
    assert activation.enabled([]) == []


def test_a_damaged_manifest(repo: Repo) -> None:
    made = agent_worktree(repo, "dev")
    before = own_config(made)
    activation.enable(location(made))
    Path(manifest.path_of(str(repo.git_dir))).write_text("{")
    with pytest.raises(GuardError):
        activation.is_enabled(location(made))
    assert "guard-tampered" in codes(status(made).findings)
    activation.enable(location(made))
    assert guarded(made)
    activation.disable(location(made))
    assert own_config(made) == before


def test_doctor_tells_of_agents_that_nothing_guards(repo: Repo) -> None:
    agent_worktree(repo, "dev")
    found = open_workspace(repo.path).doctor()
    assert [(each.code, each.severity) for each in found if each.code.startswith("guard")] == [("guard-off", "info")]
    run_ok(repo.path, "guard", "enable", "dev")
    assert [each.code for each in open_workspace(repo.path).doctor() if each.code.startswith("guard")] == []


def test_a_shim_that_is_not_first(repo: Repo) -> None:
    made = agent_worktree(repo, "dev")
    activation.enable(location(made))
    shim = scripts.shim_dir(str(repo.git_dir))
    first = {"AGENTOS_GUARD": "dev", "PATH": f"{shim}:{os.environ['PATH']}"}
    last = {"AGENTOS_GUARD": "dev", "PATH": f"{os.environ['PATH']}:{shim}"}
    assert probe.shim_on_path(location(made), first).acts
    assert not probe.shim_on_path(location(made), last).acts
    assert list(checks.examine(location(repo), {**os.environ, **last}, fix=False))[-1].code == "guard-shim"


# -- the commands ------------------------------------------------------------------------------------------------------


def test_the_commands(repo: Repo) -> None:
    made = agent_worktree(repo, "dev")
    before = config(repo)
    on = run_ok(repo.path, "guard", "enable", "dev")
    assert (check_document(on), on["id"], on["enabled"]) == ("guard-status", "dev", True)
    assert run_ok(made.path, "guard", "status")["enabled"] is True
    assert run(repo.path, "guard", "status", "dev", "-q").out == b"on\n"
    off = run_ok(repo.path, "guard", "disable", "dev")
    assert (off["enabled"], config(repo)) == (False, before)
    unknown = run(repo.path, "guard", "enable", "nobody")
    assert (unknown.code, b"there is no worktree 'nobody'" in unknown.err) == (1, True)


@pytest.mark.parametrize(
    "words",
    [("guard", "disable"), ("hooks", "uninstall"), ("hooks", "install"), ("worktree", "create", "x", "--no-guard")],
    ids=" ".join,
)
@pytest.mark.parametrize("named", [True, False], ids=["by its variable", "by where it stands"])
def test_an_agent_may_not_take_the_guard_away(repo: Repo, words: tuple[str, ...], named: bool) -> None:
    made = agent_worktree(repo, "dev")
    activation.enable(location(made))
    before = (config(repo), own_config(made))
    done = run(made.path, *words, env={"AGENTOS_AGENT_ID": "dev"} if named else {})
    assert done.code == 3, done
    assert b"approv" in done.err
    assert (config(repo), own_config(made)) == before
    assert not (repo.path.parent / "repo.worktrees" / "x").exists()
