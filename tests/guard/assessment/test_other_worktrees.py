"""Worktrees that are not the agent's own, and configuration that they share: an agent may look, and asks before it
changes anything."""

from __future__ import annotations

import os
import shlex
from typing import NamedTuple

import pytest

from git_agentos.guard.assessment.assessor import assess_git
from git_agentos.guard.call import Call
from git_agentos.guard.identity import Identity
from tests.support.guard.guarded_worktree import guarded, sh
from tests.support.repo import Repo, filled
from tests.support.state import assert_same, complete_state
from tests.support.tool import run


class Team(NamedTuple):
    """The person's main worktree, the agent's, and another agent's."""

    main: Repo
    own: Repo
    other: Repo


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Team:
    main = filled(tmp_path_factory.mktemp("team") / "repo")
    made = Team(main, guarded(main, "one"), guarded(main, "two"))
    for each in made:
        each.append("notes.txt", f"edited in {each.path.name}\n")
        each.write("new.txt", "untracked\n")
    return made


def decided(team: Team, text: str) -> tuple[str, set[str]]:
    """What is decided about a command line of the agent `one`, given in its own worktree or where `cd` leads to."""
    places = {"{main}": team.main.path, "{other}": team.other.path, "{own}": team.own.path}
    for name, path in places.items():
        text = text.replace(name, str(path))
    words, cwd = shlex.split(text), str(team.own.path)
    if words[0] == "cd":
        cwd, words = words[1], words[3:]
    environment = {**os.environ, "AGENTOS_AGENT_ID": "one"}
    while "=" in words[0]:
        key, _, value = words.pop(0).partition("=")
        environment[key] = value
    found = assess_git(Call(tuple(words), cwd, environment), Identity("one", "environment")).decision
    return found.decision, set(found.operations)


CHANGES = [
    "stash -u", "stash", "switch -c x", "switch other", "commit -qam x", "commit --allow-empty -m x", "add -A",
    "add notes.txt", "rm readme.txt", "mv readme.txt x", "restore --staged .", "reset", "apply x.patch", "revert HEAD",
    "checkout other", "checkout -- readme.txt", "stash pop", "rebase --continue", "bisect start", "submodule update",
    "update-index --add new.txt", "config --worktree a.b c", "cherry-pick --abort", "-c alias.x='add -A' x",
]  # fmt: skip
PLACES = [
    "git -C {place}",
    "cd {place} && git",
    "git -C / -C {place}",
    "git -C {place}/src",
    "git --git-dir={place_git} --work-tree={place}",
    "GIT_DIR={place_git} GIT_WORK_TREE={place} git",
    "GIT_DIR={place_git} git",
    "git --work-tree={place}",
    "GIT_INDEX_FILE={place_git}/index git",
]


def rows() -> list[str]:
    """Every change in one way to get there, and every way with one change."""
    pairs = [(PLACES[n % 2], change) for n, change in enumerate(CHANGES)]
    pairs += [(place, change) for place in PLACES for change in ("add -A", "commit -qam x")]
    return [f"{place} {change}" for place, change in dict.fromkeys(pairs)]


@pytest.mark.parametrize("which", ["main", "other"])
def test_changes_wait_for_approval(which: str, team: Team) -> None:
    place = getattr(team, which)
    for row in rows():
        text = row.replace("{place_git}", str(place.git_dir)).replace("{place}", str(place.path))
        decision, operations = decided(team, text)
        assert decision != "allow" and "other-worktree" in operations, (text, decision, operations)


LOOKS = [
    "git -C {main} status", "git -C {main} log -1", "git -C {other} diff", "cd {main} && git show HEAD",
    "git -C {main} stash list", "git -C {other} stash show -p", "git -C {main} branch", "git -C {main} config a.b",
    "git -C {main} worktree list", "GIT_DIR={main}/.git git rev-parse HEAD", "git -C {main} ls-files",
    "git -C {main} fetch .", "git -C {main} branch new HEAD", "git -C {main} tag new", "git -C {other} rev-parse HEAD",
    "git diff --no-index {main}/notes.txt notes.txt", "git -C {main} stash --help", "git -C {main} add -n .",
    "git -C {main} commit --dry-run", "git -C {other} apply --check x.patch",
]  # fmt: skip
OWN = [
    "git add -A", "git -C . add -A", "git -C {own} commit -qam x", "cd {own} && git stash", "git -C src add .",
    "GIT_DIR={own_git} git add -A", "GIT_DIR={own_git} GIT_WORK_TREE={own} git commit -qam x",
    "cd / && git -C {own} add .", "git config --worktree user.email agent@example.com",
    "git -c user.email=agent@example.com commit -qam x", "git config user.email", "git config --get user.email",
    "git config --list", "git config -f .gitmodules a.b c",
]  # fmt: skip


def test_reading_and_own_worktree_are_allowed(team: Team) -> None:
    for text in [*LOOKS, *OWN]:
        decision, operations = decided(team, text.replace("{own_git}", str(team.own.git_dir)))
        redirected = "redirect" in operations and "GIT_" in text
        assert decision == "allow" or redirected, (text, decision, operations)
        assert "other-worktree" not in operations, text


SHARED = [
    "git config user.email agent@example.com",
    "git config --local user.name agent",
    "git config --add user.name agent",
    "git config set user.name agent",
    "git config pull.rebase true",
    "git config -f {main}/.git/config user.name agent",
    "git config --file={main}/.git/config user.name agent",
    "GIT_CONFIG={main}/.git/config git config user.name agent",
]


def test_configuration_of_all_worktrees_waits_for_approval(team: Team) -> None:
    for text in SHARED:
        decision, operations = decided(team, text)
        assert decision == "approve" and "config-shared" in operations, (text, decision, operations)
    for text in (
        "git config --global user.name agent",
        "git config --system user.name agent",
        "git config -f ~/.gitconfig user.name agent",
    ):
        decision, operations = decided(team, text)
        assert decision == "approve" and "config-global" in operations, (text, decision, operations)


def test_agents_own_repository_elsewhere_is_allowed(team: Team) -> None:
    scratch = Repo.init(team.main.scratch / "scratch")
    scratch.write("a.txt", "a\n")
    for change in ("add -A", "commit -qam x", "stash", "config user.email a@example.com", "switch -c x"):
        decision, operations = decided(team, f"git -C {scratch.path} {change}")
        assert decision == "allow", (change, decision, operations)


def test_other_worktree_does_not_change(team: Team) -> None:
    """Run for real: below `guard exec`, and in the other agent's worktree by its own layers alone."""
    before = [complete_state(each.path) for each in team]
    config = (team.main.git_dir / "config").read_bytes()
    main, other = shlex.quote(str(team.main.path)), shlex.quote(str(team.other.path))
    text = f"git -C {main} stash -u; cd {main} && git add -A; git commit -qam x; git -C {main} switch -c y; cd -;"
    text += f"git -C {other} add -A; git config user.email agent@example.com; git -C {main} status --short"
    done = run(team.own.path, "guard", "exec", "--", "sh", "-c", text)
    assert done.code == 0 and b"new.txt" in done.out and done.err.count(b"other-worktree") == 5, done
    for text in ("git add -A", "git stash -u", "git commit -qam x", "git switch -q other"):
        ran = sh(team.other, text, {"AGENTOS_AGENT_ID": "one"})
        assert ran.code != 0 and "other-worktree" in ran.err, (text, ran)
    for each, was in zip(team, before, strict=True):
        assert_same(was, complete_state(each.path), each.path.name, permissions="all")
    assert (team.main.git_dir / "config").read_bytes() == config


def test_worktree_made_by_agent_is_its_own(team: Team) -> None:
    made = team.main.scratch / "made"
    done = sh(team.own, f"git worktree add -q -b made {shlex.quote(str(made))}")
    assert done.code == 0, done
    assert decided(team, f"git -C {made} add -A")[0] == "allow"
    elses = team.main.scratch / "elses"
    team.main.git("worktree", "add", "-q", "-b", "elses", str(elses))
    decision, operations = decided(team, f"git -C {elses} add -A")
    assert decision == "approve" and "other-worktree" in operations
