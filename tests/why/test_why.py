"""`git agentos why`: which turn a line comes from, or nothing where that cannot be told."""

from __future__ import annotations

import os
from typing import Any

import pytest

from git_agentos.errors import CheckpointNotFound, UsageError
from git_agentos.turns import listing
from git_agentos.why import explain
from git_agentos.why.explain import Line
from tests.support.agents import agent_worktree
from tests.support.command_line import Cli
from tests.support.json_reference import check_document
from tests.support.repo import Name, Repo
from tests.support.runs import context_of
from tests.support.sessions import ClaudeSession
from tests.support.tool import run_ok


def lines_of(repo: Repo, path: Name = "code.py", line: int | None = None) -> list[Line]:
    return explain.why(context_of(repo), os.fsencode(path), line).lines


def prompts(repo: Repo, path: Name = "code.py") -> dict[str, str | None]:
    """Text of a line -> the prompt of its turn."""
    return {each.text: each.prompt for each in lines_of(repo, path)}


def do(session: ClaudeSession, repo: Repo, prompt: str, *changes: tuple[str, str]) -> None:
    """A turn that writes files."""
    session.prompt(prompt)
    for path, content in changes:
        repo.write(path, content)
        session.edited(path)
    session.stop()


@pytest.fixture
def session(repo: Repo) -> ClaudeSession:
    repo.write("code.py", "committed\n")
    repo.git("add", "code.py")
    repo.commit("code")
    return ClaudeSession(repo)


def test_lines_of_turns_of_people_and_of_commits(repo: Repo, session: ClaudeSession) -> None:
    do(session, repo, "one", ("code.py", "one\ncommitted\n"))
    repo.write("code.py", "one\ncommitted\nby hand\n")
    do(session, repo, "two", ("code.py", "one\ncommitted\nby hand\ntwo\n"))
    repo.append("code.py", "not saved yet\n")
    one, committed, by_hand, two, unsaved = lines_of(repo)
    second, first = listing.list_turns(context_of(repo)).turns
    assert one == Line(1, "one", None, one.checkpoint, "claude-code", "s-1", first.id, "one", one.created_at)
    assert two == Line(4, "two", None, two.checkpoint, "claude-code", "s-1", second.id, "two", two.created_at)
    saved = {each["id"]: each for each in run_ok(repo.path, "checkpoint", "list")["checkpoints"]}
    assert one.checkpoint is not None
    assert two.checkpoint is not None
    assert saved[one.checkpoint]["meta"]["event"] == "edit"
    assert saved[one.checkpoint]["created_at"] == one.created_at
    assert by_hand == Line(3, "by hand", None, second.before, None, None, None, None, by_hand.created_at)
    assert committed == Line(2, "committed", repo.oid(), None, None, None, None, None, committed.created_at)
    assert unsaved == Line(5, "not saved yet", None, None, None, None, None, None, None)
    assert lines_of(repo, line=4) == [two]


def test_commits_and_rebases_in_the_worktree(repo: Repo, session: ClaudeSession) -> None:
    repo.write("code.py", "".join(f"{n}\n" for n in range(20)))
    repo.commit("many lines")
    repo.git("checkout", "-q", "-b", "work")
    content = repo.read("code.py").decode()
    do(session, repo, "edit", ("code.py", content + "of the turn\n"))
    repo.commit("of the turn")
    assert prompts(repo)["of the turn"] == "edit"
    repo.git("checkout", "-q", "main")
    repo.write("code.py", "of main\n" + content)
    repo.commit("of main")
    repo.git("checkout", "-q", "work")
    repo.git("rebase", "-q", "main")
    found = {each.text: each for each in lines_of(repo)}
    assert (found["of the turn"].prompt, found["of the turn"].commit) == ("edit", repo.oid())
    session.prompt("the next one sees it")
    found = {each.text: each for each in lines_of(repo)}
    assert (found["of the turn"].prompt, found["of main"].prompt, found["7"].prompt) == ("edit", None, None)
    assert found["of main"].commit == repo.oid("main")
    session.ran("git rebase --onto HEAD~1 HEAD~1")
    session.stop()
    assert prompts(repo)["of main"] is None


@pytest.mark.parametrize("how", ["merge", "ff", "rebase", "pick"])
def test_lines_that_another_worktree_committed(repo: Repo, session: ClaudeSession, how: str) -> None:
    """The turn is that of the worktree in which it was, not that in which the commit was merged."""
    dev = agent_worktree(repo, "dev")
    do(ClaudeSession(dev, "in-dev"), dev, "in dev", ("code.py", "committed\nof dev\n"), ("new.py", "new\n"))
    dev.git("add", "new.py")
    dev.commit("of dev")
    if how != "ff":
        repo.write("own.txt", "own\n")
        repo.git("add", "own.txt")
        repo.commit("own")
    session.prompt("merge it")
    if how == "rebase":
        repo.git("checkout", "-q", "--detach", "agent/dev")
        repo.git("rebase", "-q", "main")
    else:
        repo.git(
            *{"merge": ("merge", "-q", "--no-edit"), "ff": ("merge", "-q"), "pick": ("cherry-pick",)}[how], "agent/dev"
        )
    session.ran("git merge")
    session.stop()
    assert prompts(repo) == {"committed": None, "of dev": "in dev"}
    (line,) = lines_of(repo, "new.py")
    assert (line.prompt, line.session_id, line.agent_id) == ("in dev", "in-dev", "dev")
    assert line.checkpoint in {each["id"] for each in run_ok(dev.path, "checkpoint", "list")["checkpoints"]}
    repo.git("worktree", "remove", "--force", str(dev.path))
    assert prompts(repo, "new.py") == {"new": "in dev"}


@pytest.mark.parametrize("committed", [False, True])
def test_lines_that_a_command_brings_from_another_worktree(repo: Repo, session: ClaudeSession, committed: bool) -> None:
    dev = agent_worktree(repo, "dev")
    do(ClaudeSession(dev, "in-dev"), dev, "in dev", ("code.py", "committed\nof dev\n"))
    dev.commit("of dev")
    session.prompt("squash it")
    repo.git("merge", "-q", "--squash", "agent/dev")
    repo.append("code.py", "on top\n")
    if committed:
        repo.commit("squashed")
    session.ran("git merge --squash")
    session.stop()
    assert prompts(repo) == {"committed": None, "of dev": None, "on top": "squash it"}
    repo.commit("squashed")
    third = agent_worktree(repo, "third")  # which has all lines from here
    ClaudeSession(third, "in-third").prompt("look")
    assert prompts(repo) == {"committed": None, "of dev": None, "on top": "squash it"}


def test_a_command_that_edits_and_commits_is_the_turns(repo: Repo, session: ClaudeSession) -> None:
    session.prompt("commit at once")
    repo.append("code.py", "at once\n")
    repo.commit("at once")
    session.ran("sed and git commit")
    session.stop()
    assert prompts(repo) == {"committed": None, "at once": "commit at once"}


def test_what_comes_back_is_not_the_turns_that_brings_it_back(repo: Repo, session: ClaudeSession) -> None:
    do(session, repo, "one", ("code.py", "committed\none\n"))
    session.prompt("stash and back")
    repo.git("stash", "-q")
    session.ran("git stash")
    repo.write("other.txt", "x\n")
    repo.git("stash", "pop", "-q")
    session.ran("git stash pop")
    session.stop()
    assert prompts(repo) == {"committed": None, "one": "one"}
    do(session, repo, "remove", ("code.py", "committed\n"))
    do(session, repo, "retype among others", ("code.py", "committed\nothers\none\n"))
    assert prompts(repo) == {"committed": None, "others": "retype among others", "one": None}


# -- who cannot be told ------------------------------------------------------------------------------------------------


def test_two_sessions_at_once(repo: Repo, session: ClaudeSession) -> None:
    other = ClaudeSession(repo, "s-2")
    session.prompt("one")
    repo.write("code.py", "committed\nalone\n")
    session.edited("code.py")
    other.prompt("two")
    repo.append("code.py", "of either\n")
    other.edited("code.py")
    session.stop()
    repo.append("code.py", "alone again\n")
    other.edited("code.py")
    other.stop()
    assert prompts(repo) == {"committed": None, "alone": "one", "of either": None, "alone again": "two"}


def test_an_interrupted_turn_and_what_came_after_it(repo: Repo, session: ClaudeSession) -> None:
    session.prompt("interrupted")
    repo.write("code.py", "committed\nedited\n")
    session.edited("code.py")
    repo.append("code.py", "by somebody\n")
    session.prompt("the next")
    assert prompts(repo) == {"committed": None, "edited": "interrupted", "by somebody": None}


def test_between_a_stop_and_the_going_on_of_a_client(repo: Repo, session: ClaudeSession) -> None:
    do(session, repo, "goes on", ("code.py", "committed\none\n"))
    repo.append("code.py", "by hand\n")
    session.edited("code.py")
    repo.append("code.py", "resumed\n")
    session.edited("code.py")
    session.stop()
    assert prompts(repo) == {"committed": None, "one": "goes on", "by hand": None, "resumed": "goes on"}


def test_between_two_reports_of_one_prompt(repo: Repo, session: ClaudeSession) -> None:
    session.prompt("again")
    repo.append("code.py", "by hand\n")
    do(session, repo, "again", ("code.py", "committed\nby hand\none\n"))
    assert prompts(repo) == {"committed": None, "by hand": None, "one": "again"}
    (turn,) = listing.list_turns(context_of(repo)).turns
    assert turn.changed == ["code.py"]


def test_a_turn_without_its_checkpoints(repo: Repo, session: ClaudeSession) -> None:
    """What lies between checkpoints that are left may be of forgotten turns."""
    run_ok(repo.path, "checkpoint", "-m", "begin")
    other = ClaudeSession(repo, "s-2")
    do(other, repo, "forgotten", ("code.py", "committed\nforgotten\n"))
    ids = [each["id"] for each in run_ok(repo.path, "checkpoint", "list")["checkpoints"]][:-1]
    do(session, repo, "kept", ("code.py", "committed\nforgotten\nkept\n"))
    assert prompts(repo) == {"committed": None, "forgotten": "forgotten", "kept": "kept"}
    run_ok(repo.path, "forget", *ids)
    assert prompts(repo) == {"committed": None, "forgotten": None, "kept": "kept"}


def test_turns_that_were_recorded_without_checkpoints_are_in_the_way(repo: Repo, session: ClaudeSession) -> None:
    session.prompt("one")
    repo.config("agentos.auto.onTaskComplete", "false")
    other = ClaudeSession(repo, "s-2")
    other.prompt("unseen")
    repo.write("code.py", "committed\nunseen\n")
    other.stop()
    repo.config("agentos.auto.onTaskComplete", "true")
    session.edited("code.py")
    session.stop()
    assert prompts(repo) == {"committed": None, "unseen": None}


def test_a_checkpoint_of_no_harness_names_its_agent(repo: Repo, session: ClaudeSession) -> None:
    run_ok(repo.path, "checkpoint", "-m", "begin")
    repo.append("code.py", "of a script\n")
    run_ok(repo.path, "--as", "robot", "checkpoint", "-m", "mine", "--session", "s-robot")
    line = lines_of(repo)[-1]
    assert (line.agent_id, line.session_id, line.turn) == ("robot", "s-robot", None)


# -- files -------------------------------------------------------------------------------------------------------------


def test_renamed_files_odd_names_and_line_ends(repo: Repo, session: ClaudeSession) -> None:
    repo.write(".gitattributes", "*.txt text eol=crlf\n")
    odd = b"odd\xff:7.txt"
    many = "".join(f"{n}\r\n" for n in range(10))
    session.prompt("make")
    repo.write(odd, many)
    session.ran("make")
    session.stop()
    session.prompt("move")
    os.rename(repo.at(odd), repo.at("moved.txt"))
    repo.append("moved.txt", "more\r\n")
    session.ran("mv")
    session.stop()
    found = prompts(repo, "moved.txt")
    assert found == {**{str(n): "make" for n in range(10)}, "more": "move"}
    os.rename(repo.at("moved.txt"), repo.at(odd))
    session.prompt("and back")
    assert prompts(repo, odd) == found


def test_files_that_are_not_there(repo: Repo, session: ClaudeSession) -> None:
    repo.write("empty", "")
    repo.link("link", "code.py")
    assert lines_of(repo, "empty") == []
    for path in ("nowhere", ".git/config"):
        with pytest.raises(CheckpointNotFound, match="there is no file"):
            lines_of(repo, path)
    with pytest.raises(UsageError, match="'link' is not a regular file"):
        lines_of(repo, "link")
    with pytest.raises(UsageError, match=r"'code\.py' has no line 2"):
        lines_of(repo, "code.py", 2)


def test_the_command(repo: Repo, session: ClaudeSession, cli: Cli) -> None:
    do(session, repo, "write it", ("code.py", "committed\nnew\x1b[31m\n"), ("deep/a:1", "a\nb\n"))
    here = ("-C", str(repo.path))

    def told(*words: str) -> Any:
        done = cli(*here, "--json", "why", *words).json
        assert check_document(done) == "why"
        return done

    assert [each["prompt"] for each in told("code.py")["lines"]] == [None, "write it"]
    assert [each["line"] for each in told("code.py:2")["lines"]] == [2]
    assert told("deep/a:1")["path"] == "deep/a:1"
    assert len(told("deep/a:1")["lines"]) == 2
    assert [each["text"] for each in told("deep/a:1:2")["lines"]] == ["b"]
    text = cli(*here, "why", "code.py").text
    assert "write it" in text
    assert "\x1b" not in text
    assert cli(*here, "-q", "why", "code.py:2").text == f"{told('code.py:2')['lines'][0]['turn']}\n"
    assert cli(*here, "why", "nowhere").code == 1
    assert cli(*here, "why", "code.py:0").code == 2
