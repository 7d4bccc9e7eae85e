"""`init`: what it writes, what it takes back, and that what it says is true."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from git_agentos.guard.setup import init_record
from tests.support.agents import agent_worktree
from tests.support.fake_home import FakeHome
from tests.support.json_reference import check_document
from tests.support.repo import Repo, git_run
from tests.support.snapshot import snapshot
from tests.support.tool import Result, run, run_ok

ALL = ("claude-code", "codex", "gemini", "cursor", "copilot", "opencode")
SETTINGS = (
    ".claude/settings.local.json", ".codex/hooks.json", ".gemini/settings.json", ".cursor/hooks.json",
    ".github/hooks/git-agentos.json", ".opencode/plugins/git-agentos.js",
)  # fmt: skip


def state(repo: Repo) -> dict[str, bytes | str]:
    """Everything beside and in the repository, but for our key and the backups of settings."""
    return {
        name: data
        for name, data in snapshot(repo).items()
        if "home/.config/git-agentos" not in name
        and name not in ("home/.config", "home/.run")
        and not re.search(r"worktrees/\w+/index$|modules/sub/(index$|(refs/)?agentos)", name)
    }


def differing(before: dict[str, bytes | str], after: dict[str, bytes | str]) -> list[str]:
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


def layers(document: dict[str, Any]) -> dict[str, bool]:
    return {each["name"]: each["acts"] for each in document["layers"]}


def detail(document: dict[str, Any], name: str) -> str:
    (found,) = [each["detail"] for each in document["layers"] if each["name"] == name]
    return str(found)


def init(repo: Repo, *args: str) -> dict[str, Any]:
    document: dict[str, Any] = run_ok(repo.path, "init", *args)
    assert check_document(document) == "init"
    return document


@pytest.fixture
def linked(repo: Repo) -> Repo:
    path = repo.path.parent / "linked"
    repo.git("worktree", "add", "-q", "-b", "linked", str(path))
    return Repo(path)


# -- what is written, and taken back -----------------------------------------------------------------------------------


def test_everything_comes_back_to_the_byte(repo: Repo, linked: Repo, fake_home: FakeHome) -> None:
    fake_home.has(*ALL)
    (fake_home.path / ".codex" / "config.toml").write_text('model = "x"\n')
    (repo.path / ".claude").mkdir()
    (repo.path / ".claude" / "settings.local.json").write_text('{"model":"opus"}')
    repo.write(".git/info/exclude", ".claude/\nno newline at the end")
    before = state(repo)
    done = init(repo, "--yes")
    changed = {name for name in differing(before, state(repo)) if "/agentos" not in name}
    written = {os.path.relpath(each, repo.path.parent) for each in done["written"]}
    assert written == {name for name in changed if isinstance(state(repo)[name], bytes)}
    assert {f"{top}/{name}" for top in ("repo", "linked") for name in SETTINGS} <= written
    assert {"repo/.git/config", "repo/.git/info/exclude", "home/.codex/config.toml"} <= written
    assert repo.git("status", "--porcelain") == b""
    assert linked.git("status", "--porcelain") == b""
    taken = init(repo, "--remove", "--yes")
    assert sorted(taken["removed"]) == sorted(done["written"])
    assert taken["edited"] == []
    assert differing(before, state(repo)) == []


def test_a_second_time_nothing_is_written(repo: Repo, linked: Repo, fake_home: FakeHome) -> None:
    fake_home.has(*ALL)
    first = init(repo, "--yes")
    before = state(repo)
    again = init(repo, "--yes")
    assert (again["written"], again["layers"]) == ([], first["layers"])
    assert differing(before, state(repo)) == []


def test_a_dry_run_says_the_same_and_writes_nothing(repo: Repo, linked: Repo, fake_home: FakeHome) -> None:
    fake_home.has(*ALL)
    before = state(repo)
    planned = init(repo, "--yes", "--dry-run")
    assert planned["dry_run"] is True
    assert planned["is_set_up"] is False
    assert differing(before, state(repo)) == []
    assert not (fake_home.path / ".config" / "git-agentos").exists()
    done = init(repo, "--yes")
    assert planned["written"] == done["written"]
    after = state(repo)
    undone = init(repo, "--remove", "--dry-run")
    assert differing(after, state(repo)) == []
    assert sorted(undone["removed"]) == sorted(done["written"])
    assert init(repo, "--remove")["removed"] == undone["removed"]


def test_nothing_is_written_outside_of_the_repository_without_consent(repo: Repo, fake_home: FakeHome) -> None:
    fake_home.has(*ALL)
    (fake_home.path / ".codex" / "config.toml").write_text('model = "x"\n')
    before = fake_home.files()
    done = init(repo)
    assert fake_home.files() == before
    assert done["not_written"] == [str(fake_home.path / ".codex" / "config.toml")]
    assert all(each.startswith(str(repo.path)) for each in done["written"])
    assert init(repo, "--yes")["written"] == done["not_written"]
    assert fake_home.files() != before
    init(repo, "--remove")
    assert fake_home.files() == before


def test_what_was_there_before_stays(repo: Repo, linked: Repo, fake_home: FakeHome) -> None:
    """Hooks that only recorded, and a harness that was integrated in one of two worktrees."""
    fake_home.has("claude-code")
    run_ok(repo.path, "hooks", "install")
    run_ok(linked.path, "guard", "integrate", "claude-code")
    before = state(repo)
    assert layers(init(repo, "--dry-run"))["git-commands"] is False
    assert layers(init(repo))["git-commands"] is True
    init(repo, "--remove")
    assert run_ok(repo.path, "hooks", "status")["save"] is False
    assert [name for name in differing(before, state(repo)) if "manifest.json" not in name] == []
    assert (linked.path / SETTINGS[0]).exists()


def test_what_somebody_has_edited_since_stays(repo: Repo, fake_home: FakeHome) -> None:
    fake_home.has("claude-code", "codex")
    before = state(repo)
    init(repo, "--yes")
    claude = repo.path / SETTINGS[0]
    settings = json.loads(claude.read_text())
    claude.write_text(json.dumps({**settings, "model": "opus"}))
    repo.git("config", "user.signingKey", "mine")
    exclude = repo.path / ".git" / "info" / "exclude"
    exclude.write_bytes(exclude.read_bytes() + b"*.tmp\n")
    trusted = fake_home.path / ".codex" / "config.toml"
    trusted.write_text(trusted.read_text() + '[projects."/x"]\ntrust_level = "trusted"\n')
    done = init(repo, "--remove")
    assert sorted(done["edited"]) == sorted(map(str, (claude, repo.path / ".git/config", exclude, trusted)))
    assert json.loads(claude.read_text()) == {"model": "opus"}
    assert repo.text("config", "user.signingKey") == "mine"
    assert exclude.read_bytes() == b"*.tmp\n"
    assert trusted.read_text() == '[projects."/x"]\ntrust_level = "trusted"\n'
    rest = [name for name in differing(before, state(repo)) if not name.startswith(("home/.codex", "repo/.claude"))]
    assert rest == ["repo/.git/config", "repo/.git/info", "repo/.git/info/exclude"]
    shown = run(repo.path, "init", "--remove")
    assert b"There was nothing to restore" in shown.out


def test_text_says_what_was_edited(repo: Repo, fake_home: FakeHome) -> None:
    fake_home.has("claude-code")
    init(repo)
    repo.git("config", "user.signingKey", "mine")
    done = run(repo.path, "init", "--remove")
    lines = done.out.decode().splitlines()
    at = lines.index("Edited since: only the lines of git-agentos were removed from them:")
    assert lines[at + 1] == f"  {repo.path}/.git/config"
    assert all(len(line) <= 80 or "/" in line for line in lines)


def test_parts_can_be_left_out_and_added(repo: Repo, fake_home: FakeHome) -> None:
    fake_home.has("claude-code", "gemini")
    before = state(repo)
    only = init(repo, "--no-harness", "--no-watch")
    assert only["written"] == [str(repo.path / ".git" / "config")]
    named = init(repo, "--harness", "cursor", "--harness", "opencode")
    assert {os.path.relpath(each, repo.path) for each in named["written"]} == {
        ".cursor/hooks.json", ".opencode/plugins/git-agentos.js", ".git/info/exclude"}  # fmt: skip
    assert layers(named)["gemini"] is False
    init(repo, "--remove")
    assert differing(before, state(repo)) == []


@pytest.mark.parametrize(
    "words",
    [
        ("--harness", "nobody"),
        ("--harness", "codex", "--no-harness"),
        ("--remove", "--no-watch"),
    ],
)
def test_wrong_words_change_nothing(words: tuple[str, ...], repo: Repo, fake_home: FakeHome) -> None:
    before = state(repo)
    assert run(repo.path, "init", *words).code == 2
    assert differing(before, state(repo)) == []


# -- existing and later worktrees --------------------------------------------------------------------------------------


def test_later_worktrees_are_covered(repo: Repo, fake_home: FakeHome) -> None:
    fake_home.has("claude-code", "codex")
    init(repo)
    plain = Repo(repo.path.parent / "plain")
    repo.git("worktree", "add", "-q", "-b", "plain", str(plain.path))
    run_ok(repo.path, "worktree", "create", "dev-1")
    made = Repo(repo.path.parent / "repo.worktrees" / "dev-1")
    for each in (plain, made):
        assert (each.path / SETTINGS[0]).exists()
        assert (each.path / SETTINGS[1]).exists()
        assert each.git("status", "--porcelain") == b""
    plain.write("notes.txt", "an hour of work\n")
    assert git_run(plain.path, "reset", "--hard", "-q").returncode == 0
    assert run_ok(plain.path, "checkpoint", "list")["checkpoints"][0]["trigger"] == "before_risky"
    run_ok(repo.path, "worktree", "remove", "dev-1")
    init(repo, "--remove")
    assert not (plain.path / ".claude").exists()
    assert not (plain.path / ".codex").exists()
    assert not (repo.path / ".git" / "info").exists()


def test_worktrees_of_runs_are_left_alone(repo: Repo, fake_home: FakeHome) -> None:
    fake_home.has("claude-code")
    init(repo)
    done = run(repo.path, "run", "start", "--id", "r1", "--agent", "ls -A >>seen.txt", "--validate", "true")
    assert done.code == 0, done
    shown = run_ok(repo.path, "run", "show", "r1")
    assert not (Path(shown["context"]["worktree_path"]) / ".claude").exists()


def test_a_harness_whose_settings_cannot_be_read_is_named(repo: Repo, fake_home: FakeHome) -> None:
    fake_home.has("claude-code", "gemini")
    (repo.path / ".gemini").mkdir()
    (repo.path / ".gemini" / "settings.json").write_text("{not json")
    done = init(repo)
    assert layers(done)["gemini"] is False
    assert "is not JSON" in detail(done, "gemini")
    assert layers(done)["claude-code"] is True
    assert (repo.path / ".gemini" / "settings.json").read_text() == "{not json"
    init(repo, "--remove")
    assert (repo.path / ".gemini" / "settings.json").read_text() == "{not json"


def test_links_that_a_commit_brings_are_not_followed(repo: Repo, fake_home: FakeHome) -> None:
    """Not by `init`, and not in a worktree that is created later."""
    fake_home.has("claude-code", "gemini")
    (fake_home.path / ".gemini" / "settings.json").write_text("{}")
    init(repo)
    repo.git("checkout", "-q", "-b", "planted")
    shutil.rmtree(repo.path / ".gemini")
    repo.link(".gemini", str(fake_home.path / ".gemini"))
    repo.link("in", ".")
    repo.commit("planted")
    before = fake_home.files()
    done = init(repo)
    assert "leads out of the worktree" in detail(done, "gemini")
    assert layers(done)["gemini"] is False
    said = git_run(repo.path, "worktree", "add", "-q", "-b", "later", str(repo.path.parent / "other"))
    assert said.returncode == 0
    assert b"leads out of the worktree" in said.stderr
    made = run(repo.path, "worktree", "create", "dev-1")
    assert made.code == 0
    assert b"leads out of the worktree" in made.err
    assert (repo.path.parent / "other" / ".claude" / "settings.local.json").exists()
    assert fake_home.files() == before


# -- repositories of every kind ----------------------------------------------------------------------------------------


def test_a_repository_without_a_commit(empty_repo: Repo, fake_home: FakeHome) -> None:
    fake_home.has("claude-code")
    before = state(empty_repo)
    assert layers(init(empty_repo))["git-commands"] is True
    empty_repo.write("a.txt", "a\n")
    assert git_run(empty_repo.path, "clean", "-fdq").returncode == 0
    assert run_ok(empty_repo.path, "checkpoint", "list")["checkpoints"]
    run_ok(empty_repo.path, "init", "--remove")
    rest = [name for name in differing(before, state(empty_repo)) if "agentos" not in name]
    assert [name for name in rest if name not in ("refs", "repo/a.txt")] == []


def test_from_a_linked_worktree(repo: Repo, linked: Repo, fake_home: FakeHome) -> None:
    fake_home.has("claude-code")
    before = state(repo)
    assert layers(init(linked))["git-commands"] is True
    assert (repo.path / SETTINGS[0]).exists()
    init(repo, "--remove")
    assert differing(before, state(repo)) == []


def test_a_bare_repository(repo: Repo, fake_home: FakeHome) -> None:
    """It has nothing to lose itself; its worktrees have."""
    fake_home.has("claude-code")
    bare = Repo(repo.path.parent / "bare.git")
    repo.git("clone", "-q", "--bare", ".", str(bare.path))
    refused = run(bare.path, "init")
    assert refused.code == 1
    assert b"bare" in refused.err
    tree = Repo(repo.path.parent / "tree")
    bare.git("worktree", "add", "-q", str(tree.path), "main")
    before = state(repo)
    assert layers(init(tree))["git-commands"] is True
    init(tree, "--remove")
    assert differing(before, state(repo)) == []


def test_a_submodule_is_a_repository_of_its_own(repo: Repo, fake_home: FakeHome, tmp_path: Path) -> None:
    inner = Repo.init(tmp_path / "inner")
    inner.write("a.txt", "a\n")
    inner.commit("first")
    repo.git("submodule", "add", "-q", str(inner.path), "sub")
    repo.commit("with a submodule")
    before = state(repo)
    sub = Repo(repo.path / "sub")
    assert layers(init(sub))["git-commands"] is True
    assert layers(init(repo, "--dry-run"))["git-commands"] is False
    init(sub, "--remove")
    assert differing(before, state(repo)) == []


def test_hooks_of_husky_still_run(repo: Repo, fake_home: FakeHome) -> None:
    folder = repo.path / ".husky" / "_"
    folder.mkdir(parents=True)
    (folder / "pre-commit").write_text("#!/bin/sh\necho ran >>../ran.txt\n")
    (folder / "pre-commit").chmod(0o755)
    repo.git("config", "core.hooksPath", ".husky/_")
    before = state(repo)
    assert layers(init(repo))["history"] is True
    repo.git("config", "core.hooksPath", ".husky/_")  # as each installation of the project does
    repo.commit("empty")
    assert (repo.path.parent / "ran.txt").read_text() == "ran\n"
    (repo.path.parent / "ran.txt").unlink()
    assert layers(init(repo))["history"] is True
    init(repo, "--remove")
    changed = [name for name in differing(before, state(repo)) if name.endswith(("config", "_", "pre-commit"))]
    assert changed == []


def test_a_git_directory_that_cannot_be_written_to(repo: Repo, fake_home: FakeHome) -> None:
    fake_home.has("claude-code")
    before = state(repo)
    repo.git_dir.chmod(0o555)
    try:
        done = run(repo.path, "init", unprivileged=True)
    finally:
        repo.git_dir.chmod(0o755)
    assert done.code == 1, done
    assert b"ermission denied" in done.err
    assert differing(before, state(repo)) == []


def test_a_git_that_is_too_old(repo: Repo, fake_home: FakeHome) -> None:
    older = fake_home.install("git", None)
    real = shlex.quote(shutil.which("git") or "")
    older.write_text(
        f'#!/bin/sh\nfor last; do :; done\n[ "$last" = version ] || exec {real} "$@"\necho git version 2.37.9\n'
    )
    before = state(repo)
    done = run(repo.path, "init", env=fake_home.on_path)
    assert done.code == 1, done
    assert b"too old" in done.err
    assert differing(before, state(repo)) == []


# -- agents ------------------------------------------------------------------------------------------------------------


def test_an_agent_neither_removes_nor_sets_up(repo: Repo, fake_home: FakeHome) -> None:
    init(repo)
    before = state(repo)
    agent = {"AGENTOS_AGENT_ID": "dev-1"}

    def as_agent(*words: str) -> Result:
        return run(repo.path, "init", *words, env=agent)

    assert as_agent("--remove").code == 3
    assert as_agent().code == 3
    assert as_agent("--dry-run").code == 0
    assert as_agent("--remove", "--dry-run").code == 0
    requests = re.compile(r"/agentos/(approvals|workflow)|repo/\.agentos(/|$)")
    assert [name for name in differing(before, state(repo)) if not requests.search(name)] == []
    made = agent_worktree(repo, "dev-2")
    assert run(made.path, "init", "--remove").code == 3
    assert init_record.read(str(repo.git_dir)) is not None


def test_a_forged_record_does_not_count(repo: Repo, fake_home: FakeHome) -> None:
    """An agent that writes to it cannot have other things removed, nor settings written into new worktrees."""
    run_ok(repo.path, "hooks", "install")
    path = Path(init_record.path_of(str(repo.git_dir)))
    body: dict[str, Any] = {"hooks": "none", "harnesses": {"claude-code": []}, "trusted": [], "watch": None}
    path.write_text(json.dumps({"init": body, "mac": "00" * 32}))
    assert init(repo, "--remove")["removed"] == []
    assert run_ok(repo.path, "hooks", "status")["installed"] is True
    repo.git("worktree", "add", "-q", str(repo.path.parent / "new"))
    assert not (repo.path.parent / "new" / ".claude").exists()


# -- what new worktrees need -------------------------------------------------------------------------------------------


def test_suggestions(repo: Repo, fake_home: FakeHome) -> None:
    assert init(repo, "--dry-run")["suggestions"] == []
    for name in ("package-lock.json", "yarn.lock", "uv.lock", "Cargo.lock", ".env", ".env.local"):
        repo.write(name, "x\n")
    repo.write(".gitignore", ".env\n")
    suggested = init(repo)["suggestions"]
    assert [each["command"] for each in suggested] == [
        "git config agentos.setup 'yarn install --frozen-lockfile && uv sync && cargo fetch'",
        "printf '%s\\n' .env >.worktreeinclude",
    ]
    assert not (repo.path / ".worktreeinclude").exists()
    assert repo.text("config", "--default", "", "agentos.setup") == ""
    for each in suggested:
        subprocess.run(each["command"], shell=True, cwd=repo.path, check=True)
    assert init(repo)["suggestions"] == []
    assert (repo.path / ".worktreeinclude").read_text() == ".env\n"
    repo.git("config", "agentos.setup", "true")
    run_ok(repo.path, "worktree", "create", "dev-1")
    assert (repo.path.parent / "repo.worktrees" / "dev-1" / ".env").read_text() == "x\n"


# -- consent -----------------------------------------------------------------------------------------------------------


def in_a_terminal(repo: Repo, answer: bytes) -> tuple[int, bytes]:
    """Run `init` with a terminal as stdin and stderr, and answer its question; its exit code, and what it asked."""
    main, inner = os.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "git_agentos", "init"], cwd=repo.path, stdin=inner, stdout=subprocess.PIPE, stderr=inner
    )
    os.close(inner)
    asked = b""
    try:
        while b"[y/N]" not in asked:
            asked += os.read(main, 4096)
        os.write(main, answer)
        child.communicate(timeout=120)
    finally:
        child.kill()
        child.wait()
        os.close(main)
    return child.returncode, asked


@pytest.mark.parametrize(("answer", "is_yes"), [(b"y\n", True), (b"yes\n", True), (b"\n", False), (b"n\n", False)])
def test_a_person_is_asked(answer: bytes, is_yes: bool, repo: Repo, fake_home: FakeHome) -> None:
    fake_home.has("codex")
    code, asked = in_a_terminal(repo, answer)
    assert code == 0, asked
    path = fake_home.path / ".codex" / "config.toml"
    assert f"codex runs only hooks that are trusted there by their hash. Add ours to {path}?".encode() in asked
    assert path.exists() is is_yes
    run_ok(repo.path, "init", "--remove")
    assert not path.exists()


def test_two_repositories_share_the_file(repo: Repo, make_repo: Callable[[str], Repo], fake_home: FakeHome) -> None:
    fake_home.has("codex")
    path = fake_home.path / ".codex" / "config.toml"
    path.write_text('model = "x"')
    other = make_repo("other")
    init(repo, "--yes")
    hooks = path.read_text().count("trusted_hash")
    init(other, "--yes")
    assert path.read_text().count("trusted_hash") == 2 * hooks > 0
    init(repo, "--remove")
    assert path.read_text().count("trusted_hash") == path.read_text().count(str(other.path)) == hooks
    init(other, "--remove")
    assert path.read_text() == 'model = "x"'


def test_trust_in_hooks_that_were_others(repo: Repo, fake_home: FakeHome) -> None:
    """As after an update of git-agentos: the command of our hooks is another one."""
    fake_home.has("codex")
    path = fake_home.path / ".codex" / "config.toml"
    init(repo, "--yes")
    wanted = path.read_bytes()
    path.write_bytes(wanted.replace(b"sha256:", b"sha256:00", 1))
    assert init(repo)["not_written"] == [str(path)]
    init(repo, "--yes")
    assert path.read_bytes() == wanted
    init(repo, "--remove")
    assert not path.exists()


@pytest.mark.parametrize("text", ["hooks = { state = {} }\n", "[hooks\n", "hooks = 1\n"])
def test_a_file_that_cannot_be_extended_stays(text: str, repo: Repo, fake_home: FakeHome) -> None:
    fake_home.has("codex")
    path = fake_home.path / ".codex" / "config.toml"
    path.write_text(text)
    done = init(repo, "--yes")
    assert path.read_text() == text
    assert layers(done)["codex"] is False
    assert str(path) not in done["written"]
