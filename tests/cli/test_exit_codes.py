"""Exit codes and what stands where: the table of the command contract, end to end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from git_agentos import errors
from git_agentos.cli import invocation
from tests.support.command_line import Cli
from tests.support.repo import Repo

RUN = [sys.executable, "-m", "git_agentos"]


def raising(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Let the next command meet `error` where it opens its workspace."""

    def fail(self: invocation.Invocation) -> None:
        raise error

    monkeypatch.setattr(invocation.Invocation, "workspace", fail)


def test_done_is_0(cli: Cli, repo: Repo) -> None:
    assert cli("-C", str(repo.path), "checkpoint").code == 0
    assert cli("-C", str(repo.path), "checkpoint", "search", "nowhere to be found").code == 0


def test_failed_is_1(cli: Cli, tmp_path: Path) -> None:
    answer = cli("-C", str(tmp_path), "status")
    assert (answer.code, answer.out) == (1, b"")
    assert answer.talk.startswith("error: ")
    assert "\nhint: " in answer.talk


@pytest.mark.parametrize(
    ("error", "code", "kind"),
    [
        (errors.AgentosError("m"), 1, "error"),
        (errors.UsageError("m"), 2, "usage"),
        (errors.PolicyError("m"), 3, "policy"),
        (errors.ConflictError("m"), 4, "conflict"),
        (errors.CheckpointNotFound("m"), 1, "checkpoint-not-found"),
        (OSError(28, "No space left on device", "/some/file"), 1, "system"),
        (PermissionError(13, "Permission denied"), 1, "system"),
        (BrokenPipeError(32, "Broken pipe"), 70, "bug"),
        (RuntimeError("m"), 70, "bug"),
        (KeyboardInterrupt(), 130, "cancelled"),
    ],
)
def test_every_error_has_its_code(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, kind: str
) -> None:
    raising(monkeypatch, error)
    answer = cli("undo")
    assert (answer.code, answer.out) == (code, b"")
    assert answer.talk.startswith("error: ")
    told = cli("undo", "--json")
    assert (told.code, told.json["schema"], told.json["error"]["kind"]) == (code, "agentos.error.v1", kind)


def test_error_message_cannot_harm_the_terminal(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    raising(monkeypatch, errors.AgentosError("no '\x1b[31m\udcff'", "first \x07\nsecond"))
    assert cli("undo").talk == "error: no '\\033[31m\\377'\nhint: first \\a\nhint: second\n"


def test_a_refusal_says_that_nothing_was_changed(cli: Cli, repo: Repo) -> None:
    where = ["-C", str(repo.path)]
    assert cli(*where, "restore", "beef").talk.splitlines()[-1] == "nothing was changed"
    assert "nothing was changed" not in cli(*where, "checkpoint", "show", "beef").talk


def test_a_bug_is_kept_where_only_its_owner_reads_it(
    cli: Cli, repo: Repo, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("a bug of ours")

    monkeypatch.setattr("git_agentos.workspace.Workspace.status", fail)
    answer = cli("-C", str(repo.path), "status", in_process=True)
    assert answer.code == 70
    found = re.search(r"the traceback is in '([^']+)'", answer.talk)
    assert found is not None
    file = Path(found[1])
    assert file.parent == Path(os.path.realpath(repo.path)) / ".git" / "agentos"
    assert "RuntimeError: a bug of ours" in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_state_folder_that_is_a_link_is_not_followed(
    cli: Cli, repo: Repo, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from git_agentos.cli import crash

    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "link").symlink_to(elsewhere)
    where = crash.record(RuntimeError("x"), str(tmp_path / "link"))
    assert list(elsewhere.iterdir()) == []
    assert "RuntimeError" in Path(where).read_text()
    os.unlink(where)


@pytest.mark.slow
def test_a_reader_that_leaves_is_no_error(repo: Repo) -> None:
    """`git agentos checkpoint list | head -1`: quiet, and nothing is printed to stderr at exit."""
    subprocess.run([*RUN, "-C", str(repo.path), "checkpoint"], check=True, stdout=subprocess.DEVNULL)
    for line in ("checkpoint list", "checkpoint list --json", "--help", "--version", "completion zsh"):
        argv = line.split()
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([*RUN, "-C", str(repo.path), *argv], stdout=writer, stderr=subprocess.PIPE)
        os.close(writer)
        assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_result_that_cannot_be_written_is_an_error(repo: Repo) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run([*RUN, "-C", str(repo.path), "checkpoint"], stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 1
    assert b"error: the result could not be written: no space left on device" in done.stderr


@pytest.mark.slow
def test_closed_streams_are_survived(repo: Repo) -> None:
    repo.write("new.txt", "x")
    line = f"{sys.executable} -m git_agentos -C '{repo.path}' checkpoint"
    assert subprocess.run(["sh", "-c", f"{line} <&- >&- 2>&-"]).returncode == 0
    done = subprocess.run([*RUN, "-C", str(repo.path), "checkpoint", "list", "--json"], capture_output=True, check=True)
    assert json.loads(done.stdout)["checkpoints"][0]["untracked_files"] == ["new.txt"]


@pytest.mark.slow
def test_interrupted_is_130(repo: Repo) -> None:
    code = (
        "import os, signal\n"
        # A shell starts background jobs with SIGINT ignored, and they hand that on.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from git_agentos.cli import entry, invocation\n"
        "def stop(self): os.kill(os.getpid(), signal.SIGINT); import time; time.sleep(10)\n"
        "invocation.Invocation.workspace = stop\n"
        "entry.main()"
    )
    done = subprocess.run([sys.executable, "-c", code, "undo"], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr.startswith("error: interrupted\n")
    assert signal.SIGINT


def test_a_conflict_is_4_and_still_a_result(cli: Cli, repo: Repo) -> None:
    repo.git("checkout", "-q", "-b", "side")
    repo.write("clash.txt", "side\n")
    repo.commit("side")
    repo.git("checkout", "-q", "main")
    repo.write("clash.txt", "main\n")
    repo.commit("main")
    where = ["-C", str(repo.path)]
    answer = cli(*where, "pick", "side", "--json")
    assert (answer.code, answer.json["state"], answer.json["conflicts"]) == (4, "conflict", ["clash.txt"])
    back = cli(*where, "pick", "--abort", "--json")
    assert (back.code, back.json["state"]) == (0, "aborted")
    assert repo.read("clash.txt") == b"main\n"
