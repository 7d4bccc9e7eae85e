"""A command as a model: what it gets, what of it counts, and that nothing is left of it."""

from __future__ import annotations

import contextlib
import io
import os
import stat
import uuid
from collections.abc import Mapping
from pathlib import Path

import pytest

from git_agentos.errors import TddError
from git_agentos.git.location import locate
from git_agentos.process import contained, marked
from git_agentos.run import step
from git_agentos.tdd.models.command import Command
from git_agentos.tdd.models.model import IMPLEMENT, SCAFFOLD, ModelResult
from tests.support import model_requests
from tests.support.model_requests import PROMPT, ModelWorktree
from tests.support.repo import Repo


@pytest.fixture(autouse=True)
def _short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contained, "GRACE", 0.3)


@pytest.fixture
def site(repo: Repo) -> ModelWorktree:
    return model_requests.model_worktree(repo)


def command(text: str, limit: float | None = None, environment: Mapping[str, str] | None = None) -> Command:
    return Command(text, {**os.environ, **(environment or {})}, limit)


def done(site: ModelWorktree, text: str, limit: float | None = None) -> ModelResult:
    return command(text, limit).work(site.asked())


def output(site: ModelWorktree, text: str) -> str:
    """What a command wrote."""
    done(site, text)
    return site.said()


# -- what it gets ------------------------------------------------------------------------------------------------------


# With ids: pytest has that of the present test in the environment, which has not room for all.
@pytest.mark.parametrize(
    "prompt",
    [PROMPT, "", "no end of line", "x" * 3_000_000, "é \udcff $HOME `id`\r\n"],
    ids=["usual", "empty", "no end of line", "long", "special characters"],
)
def test_the_prompt_on_stdin_and_in_a_file(site: ModelWorktree, prompt: str) -> None:
    asked = site.asked(prompt=prompt)
    work = command('cat >stdin; cp "$AGENTOS_PROMPT_FILE" file; stat -c %a "$AGENTOS_PROMPT_FILE"').work(asked)
    assert (work.error, work.exit_code, site.said()) == (None, 0, "600\n")
    expected = prompt.encode("utf-8", "replace")
    assert (site.root / "stdin").read_bytes() == (site.root / "file").read_bytes() == expected


def test_command_that_does_not_read_the_prompt(site: ModelWorktree) -> None:
    assert command("exec <&-; exit 0").work(site.asked(prompt="x" * 3_000_000)).exit_code == 0


def test_the_file_lies_outside_of_the_worktree_and_does_not_stay(site: ModelWorktree) -> None:
    path = Path(output(site, 'echo "$AGENTOS_PROMPT_FILE"').strip())
    assert path.is_absolute()
    assert not path.is_relative_to(site.root)
    assert not path.exists()
    with pytest.raises(TddError):
        done(site, "/no/such/program")
    assert not path.exists()


def test_prompt_file_of_a_killed_process_is_replaced(site: ModelWorktree, tmp_path: Path) -> None:
    path = Path(output(site, 'echo "$AGENTOS_PROMPT_FILE"').strip())
    (tmp_path / "mine").write_text("mine")
    path.symlink_to(tmp_path / "mine")
    assert output(site, "cat") == PROMPT
    assert (tmp_path / "mine").read_text() == "mine"


def test_the_environment(site: ModelWorktree) -> None:
    names = "AGENTOS_TDD_NODE AGENTOS_ATTEMPT AGENTOS_AGENT_ID AGENTOS_RUN_ID AGENTOS_TASK_ID GIT_DIR MINE"
    text = f'pwd; for name in {names}; do eval echo "$name=\\$$name"; done'
    outer = {"AGENTOS_TDD_NODE": "outer", "AGENTOS_PROMPT_FILE": "/outer", "GIT_DIR": "/outer", "MINE": "yes"}
    command(text, environment=outer).work(site.asked(IMPLEMENT, attempt=1))
    assert site.said().splitlines() == [
        str(site.root),
        "AGENTOS_TDD_NODE=implement",
        "AGENTOS_ATTEMPT=2",
        "AGENTOS_AGENT_ID=run-r1",
        "AGENTOS_RUN_ID=r1",
        "AGENTOS_TASK_ID=87",
        "GIT_DIR=",
        "MINE=yes",
    ]


def test_database_url_is_not_passed_to_the_command(site: ModelWorktree) -> None:
    def told(value: str) -> str:
        text = 'echo "<$AGENTOS_WORKFLOW_DB>"'
        command(text, environment={"AGENTOS_WORKFLOW_DB": value}).work(site.asked())
        return site.said()

    assert told("postgresql://u:pw@h/db") == "<>\n"
    assert told("/a/file.db") == "</a/file.db>\n"


def test_command_is_guarded(site: ModelWorktree) -> None:
    (site.root / "work").write_text("precious")
    work = done(site, "git clean -fdq; command -v git; git push --force origin HEAD")
    assert "/agentos/guard/bin/git" in site.said()
    assert work.exit_code not in (0, None)


def test_keys_stay_in_its_environment_and_out_of_what_is_kept(site: ModelWorktree) -> None:
    key = f"key-{uuid.uuid4().hex}"
    asked = site.asked(prompt=f"the prompt has {key} too\n")
    model = command('cat; echo "$MY_API_KEY" | tee key; echo "token=$MY_API_KEY" >&2', environment={"MY_API_KEY": key})
    work = model.work(asked)
    assert (site.root / "key").read_text() == key + "\n"
    assert work.exit_code == 0
    kept = site.said() + b"\n".join(site.shown).decode() + "".join(map(site.kept, ("prompt.txt", "stdout", "stderr")))
    assert key not in kept
    assert "[redacted]" in site.kept("prompt.txt")
    assert key not in Command(f"MY_API_KEY={key} claude -p", {}).recipient


def test_the_recipient_names_the_command() -> None:
    assert "'claude -p'" in command("claude -p").recipient


# -- how it ends -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [0, 1, 2, 125, 143])
def test_an_exit_code_is_recorded_and_nothing_more(site: ModelWorktree, code: int) -> None:
    work = done(site, f"echo said; echo wrote >wrote; echo no >&2; exit {code}")
    assert (work.error, work.exit_code, site.said()) == (None, code, "said\nno\n")
    assert (site.kept("stdout"), site.kept("stderr")) == ("said\n", "no\n")
    assert (site.root / "wrote").exists()
    assert sorted(site.shown) == [b"no", b"said"]


@pytest.mark.parametrize(("text", "code"), [("no-such-agent -p", 127), ("/etc/passwd", 126)])
def test_missing_program(site: ModelWorktree, text: str, code: int) -> None:
    with pytest.raises(TddError) as error:
        done(site, text)
    assert f"exit code {code}" in str(error.value)
    assert text.split(maxsplit=1)[0] in str(error.value)


def test_command_exceeding_the_limit_is_ended(site: ModelWorktree) -> None:
    work = done(site, "echo begun; sleep 1000", limit=1.5)
    assert (work.error, work.interrupted) == ("the agent took longer than 1.5 s", False)
    assert site.said() == "begun\n"


def test_command_that_is_interrupted(site: ModelWorktree) -> None:
    work = command("echo begun; sleep 1000").work(site.asked(stop=lambda: site.shown != []))
    assert (work.error, work.interrupted) == (None, True)


def test_processes_carry_the_mark_and_end_with_the_command(site: ModelWorktree) -> None:
    mark = uuid.uuid4().hex
    command('echo "$AGENTOS_RUN_MARK"; setsid sleep 1000 & sleep 0.1').work(site.asked(mark=mark))
    assert site.said() == mark + "\n"
    assert marked.sweep(mark) == []


def test_a_lock_that_a_killed_git_left_is_gone(site: ModelWorktree) -> None:
    text = ': >"$(git rev-parse --git-dir)/index.lock"; exit 1'
    done(site, text)
    assert not Path(site.here.location.git_dir, "index.lock").exists()


def test_long_output_is_kept_whole(site: ModelWorktree) -> None:
    done(site, "i=0; while [ $i -lt 9000 ]; do echo line $i; i=$((i+1)); done")
    assert site.said().endswith("line 8999\n")
    assert site.kept("stdout").startswith("line 0\n")


def test_output_that_is_not_utf8(site: ModelWorktree) -> None:
    done(site, "printf 'a\\377b\\n'")
    assert (site.folder / "stdout").read_bytes() == b"a\xffb\n"


def test_files_of_an_exchange_never_follow_links(site: ModelWorktree, tmp_path: Path) -> None:
    site.folder.mkdir(parents=True)
    (tmp_path / "mine").write_text("mine")
    for name in ("prompt.txt", "stdout", "stderr"):
        (site.folder / name).symlink_to(tmp_path / "mine")
    assert done(site, "echo said").exit_code == 0
    assert (tmp_path / "mine").read_text() == "mine"
    assert stat.S_ISREG(os.lstat(site.folder / "stdout").st_mode)


# -- stdin of a child --------------------------------------------------------------------------------------------------


def test_a_child_without_stdin_has_nothing_to_read(site: ModelWorktree) -> None:
    location = locate(str(site.root))
    env = step.command_environment(os.environ, run_id="r1", agent="run-r1", task=None, mark=uuid.uuid4().hex)
    out = io.BytesIO()
    child = contained.Command(contained.shell("cat; echo end"), location.root, env)
    assert contained.run(child, out, io.BytesIO(), show=lambda _: None, stop=lambda: False).exit_code == 0
    assert out.getvalue() == b"end\n"


def test_descriptors_are_closed(site: ModelWorktree) -> None:
    before = _descriptors()
    for node in (SCAFFOLD, IMPLEMENT):
        command("cat").work(site.asked(node))
    assert _descriptors() == before


def _descriptors() -> int:
    """How many are open, but for packs: the run's repository keeps those open that it has read."""
    found = 0
    for each in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # that of the listing itself
            found += "/objects/pack/" not in os.readlink(f"/proc/self/fd/{each}")
    return found
