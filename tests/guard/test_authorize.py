"""Every git-agentos command asks the guard, in every way of calling it: whole repositories before and after."""

from __future__ import annotations

import importlib
import inspect
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from git_agentos.errors import PolicyError
from git_agentos.guard import authorize
from git_agentos.guard.assessment.assessor import assess_git
from git_agentos.guard.call import Call
from git_agentos.guard.identity import Identity
from git_agentos.guard.policy import command_table
from git_agentos.guard.policy.command_table import HERE, PERSON, RUN, WORKTREE, Command, Request, table
from git_agentos.guard.policy.operations import OPERATIONS
from tests.support.confirming import set_up
from tests.support.env import PROJECT_ROOT
from tests.support.guard.approvals import at_terminal
from tests.support.repo import Repo
from tests.support.tool import Result, run, run_ok

_BIN = Path(sys.executable).parent
_PATH = {"PATH": f"{_BIN}{os.pathsep}{os.environ['PATH']}"}


class Field:
    """A person's repository with the worktrees of two agents, each with a commit of its own and something undone."""

    def __init__(self, repo: Repo, *options: str) -> None:
        self.repo = repo
        self.main = repo.path
        self.of = {}
        for id_ in ("dev-1", "dev-2"):
            made = Path(run_ok(self.main, "worktree", "create", id_, *options)["path"])
            (made / f"{id_}.txt").write_text("its work\n")
            subprocess.run(["git", "add", "-A"], cwd=made, check=True)
            subprocess.run(["git", "commit", "-qm", id_], cwd=made, check=True)
            (made / "draft.txt").write_text("not committed\n")
            run_ok(made, "checkpoint")
            self.of[id_] = made

    def state(self) -> tuple[bytes, list[str], list[str]]:
        """Branches, and all files of the worktrees; requests, logs and checkpoints may be made by who asks."""
        refs = self.repo.git("for-each-ref", "refs/heads")
        listed = [str(path) for top in (self.main, *self.of.values()) for path in sorted(top.glob("[!.]*"))]
        texts = [path.read_text() for top in self.of.values() for path in sorted(top.glob("*.txt"))]
        return refs, listed, texts


@pytest.fixture(scope="module")
def field(tmp_path_factory: pytest.TempPathFactory) -> Field:
    from tests.support.repo import filled

    return Field(filled(tmp_path_factory.mktemp("authorize") / "repo"))


@pytest.fixture
def own_field(repo: Repo) -> Field:
    return Field(repo, "--no-guard")


# -- all commands, all callers -----------------------------------------------------------------------------------------

PLACES = ("own", "other", "main")


def request(command: Command, place: str, field: Field) -> Request:
    """A call of a command by agent `dev-1` to whom `place` says."""
    id_ = {"own": "dev-1", "other": "dev-2", "main": "dev-2"}[place]
    folders = {"own": (), "other": (str(field.of["dev-2"]),), "main": (str(field.main),)}[place]
    operands = {WORKTREE: (id_,), RUN: ("nobodys",)}.get(command.target, ())
    return Request(command.path, operands, frozenset(), folders)


def stopped(wanted: Request) -> bool:
    try:
        authorize.check(wanted, ("git", "agentos", *wanted.path))
    except PolicyError:
        return True
    return False


def expected(command: Command, place: str) -> bool:
    """Whether an agent is stopped, by the documented page alone."""
    cells = documented()[command.name]
    cell = cells[0] if place == "own" and command.target in (HERE, WORKTREE) else cells[1]
    return cell != "allowed"


def documented() -> dict[str, list[str]]:
    """Command -> what the page says for an agent's own worktree, and for anything else."""
    found = {}
    section = (PROJECT_ROOT / "docs" / "guard-operations.md").read_text().partition("## Commands of git agentos")[2]
    for line in section.partition("\n## ")[0].splitlines():
        if line.startswith("| `"):
            name, *cells = (cell.strip() for cell in line.strip("| ").split("|"))
            found[name.strip("`").removeprefix("git agentos ")] = [cell.replace("`", "") for cell in cells]
    return found


def word(operation: str) -> str:
    return "allowed" if OPERATIONS[operation].default == "allow" else operation


def variants(command: Command) -> Iterator[tuple[str, list[str]]]:
    for option in ("", *sorted(command.variants)):
        given = [option] if option else []
        own, other = (
            "person only"
            if command.is_decision(given)
            else ", ".join(dict.fromkeys(map(word, command_table.operations(command, given, own=is_own))))
            for is_own in (True, False)
        )
        yield f"{command.name} {option}".strip(), [own if command.target in (HERE, WORKTREE, RUN) else other, other]


def test_the_page_has_every_command() -> None:
    assert documented() == dict(row for command in table().values() for row in variants(command))


def test_agent_in_its_worktree_and_elsewhere(field: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(field.of["dev-1"])
    for command in table().values():
        for place in PLACES:
            assert stopped(request(command, place, field)) == expected(command, place), (command.name, place)


def test_agent_that_stands_in_anothers_worktree(field: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTOS_AGENT_ID", "dev-1")
    for place, folder in (("other", field.of["dev-2"]), ("main", field.main)):
        monkeypatch.chdir(folder)
        for command in table().values():
            if command.target == HERE:
                assert stopped(Request(command.path)) == expected(command, place), (command.name, place)


def test_person_is_never_stopped(field: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(field.main)
    for command in table().values():
        for place in PLACES:
            assert not stopped(request(command, place, field)), (command.name, place)
    assert not stopped(Request(("frobnicate",)))


def test_a_command_without_a_row_is_refused_to_agents(field: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(field.of["dev-1"])
    with pytest.raises(PolicyError, match="'git agentos frobnicate' is not known to the guard"):
        authorize.check(Request(("frobnicate",)), ("git", "agentos", "frobnicate"))


def test_guard_check_says_what_the_commands_do(field: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line that the shim and the harness see comes to the same as the command itself."""
    own = field.of["dev-1"]
    monkeypatch.chdir(own)
    for command in table().values():
        if command.target == PERSON or command.name in ("guard exec", "hook"):
            continue
        for place in PLACES:
            wanted = request(command, place, field)
            folders = [word for folder in wanted.folders for word in ("-C", folder)]
            words = ("git", "agentos", *folders, *wanted.path, *wanted.operands)
            said = assess_git(Call(words, str(own), dict(os.environ)), Identity("dev-1", "worktree")).decision
            assert (said.decision != "allow") == stopped(wanted), words


# -- the real thing ----------------------------------------------------------------------------------------------------

WAYS = {
    "git": "git agentos {}",
    "git-agentos": "git-agentos {}",
    "python": f"{sys.executable} -m git_agentos {{}}",
    "below guard exec": "git-agentos guard exec -- git-agentos {}",
    "by another folder": 'cd / && git-agentos -C "$HERE" {}',
    "without a name": "env -u AGENTOS_AGENT_ID git-agentos {}",
}
DANGEROUS = (
    "worktree merge dev-1", "worktree remove dev-2", "worktree archive dev-2", "doctor --fix", "-C ../dev-2 undo",
    "-C ../dev-2 restore latest --no-branch", "run start --agent true", "guard disable", "hooks install",
)  # fmt: skip


def sh(text: str, cwd: Path, **env: str) -> Result:
    done = subprocess.run(
        ["sh", "-c", text], cwd=cwd, capture_output=True, timeout=120, env={**os.environ, **_PATH, **env}
    )
    return Result((text,), done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("way", WAYS)
def test_an_agent_is_stopped_however_it_calls(way: str, field: Field) -> None:
    own = field.of["dev-1"]
    before = field.state()
    # What stands at the top in the agent's folder is the agent, wherever what it starts may stand.
    wanted = DANGEROUS if way == "git-agentos" else DANGEROUS[:2]
    script = "\n".join(f"(  {WAYS[way].format(each)} ); echo $?" for each in wanted)
    done = sh(script, own, HERE=str(own))
    assert done.out.decode().split() == ["3"] * len(wanted), str(done)
    assert done.err.decode().count("needs approval") == len(wanted)
    assert field.state() == before


def test_the_separate_executables_ask_too(field: Field) -> None:
    before = field.state()
    script = "git-agentos-worktree remove dev-2; echo $?; git-agentos-restore -C ../dev-2 latest; echo $?"
    done = sh(script, field.of["dev-1"])
    assert done.out.decode().split() == ["3", "3"], str(done)
    assert field.state() == before


def test_anothers_name_or_folder_makes_no_worktree_ones_own(field: Field) -> None:
    before = field.state()
    script = """
        AGENTOS_AGENT_ID=dev-2 git-agentos -C ../dev-2 undo; echo $?
        git-agentos --as dev-2 -C ../dev-2 restore latest; echo $?
        (cd ../dev-2 && git-agentos restore latest); echo $?
        git -C ../dev-2 agentos restore latest; echo $?
    """
    done = sh(script, field.of["dev-1"])
    assert done.out.decode().split() == ["3"] * 4, str(done)
    assert field.state() == before


def test_id_of_another_worktree_gives_no_ownership(field: Field) -> None:
    before = field.state()
    for env, cwd in (("dev-2", "dev-1"), ("dev-1", "dev-2")):
        done = run(field.of[cwd], "-C", str(field.of["dev-2"]), "undo", env={"AGENTOS_AGENT_ID": env})
        assert done.code == 3, str(done)
    assert field.state() == before


ELSEWHERE = {
    "its git directory": 'GIT_DIR="$ITS" GIT_WORK_TREE="$THERE" git-agentos restore latest --no-branch',
    "without a worktree": 'GIT_DIR="$ITS" git-agentos restore latest --no-branch',
    "its files": 'GIT_WORK_TREE="$THERE" git-agentos restore latest --no-branch',
    "an option of git": 'git --git-dir="$ITS" --work-tree="$THERE" agentos undo',
    "main": 'GIT_DIR="$MAIN/.git" GIT_WORK_TREE="$MAIN" git-agentos undo',
    "main's rollback": 'GIT_DIR="$ITS" GIT_WORK_TREE="$THERE" git-agentos rollback',
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_git_dir_and_its_like_make_no_worktree_ones_own(field: Field, name: str) -> None:
    own, other = field.of["dev-1"], field.of["dev-2"]
    before = field.state()
    its = str(field.main / ".git" / "worktrees" / "dev-2")
    done = sh(ELSEWHERE[name], own, ITS=its, THERE=str(other), MAIN=str(field.main))
    assert done.code == 3, str(done)
    assert field.state() == before


def test_core_worktree_makes_no_files_ones_own(own_field: Field) -> None:
    own, other = own_field.of["dev-1"], own_field.of["dev-2"]
    own_field.repo.config("extensions.worktreeConfig", "true")
    before = own_field.state()
    script = 'git config --worktree core.worktree "$THERE"; git-agentos restore latest --no-branch'
    done = sh(script, own, THERE=str(other))
    assert done.code == 3, str(done)
    assert own_field.state() == before


def test_git_dir_of_ones_own_is_fine(own_field: Field) -> None:
    """Hooks and `rebase --exec` have it set."""
    own = own_field.of["dev-1"]
    its = str(own_field.main / ".git" / "worktrees" / "dev-1")
    for text in ("git-agentos restore latest --no-branch", "git-agentos undo", "git-agentos worktree complete"):
        done = sh(text, own, GIT_DIR=its, GIT_WORK_TREE=str(own))
        assert done.code == 0, str(done)


def test_an_id_of_another_repository_is_another(own_field: Field, tmp_path: Path) -> None:
    from tests.support.repo import filled

    other = Field(filled(tmp_path / "other"), "--no-guard")
    own = own_field.of["dev-1"]
    for text in ("-C $THERE restore latest", "-C $THERE worktree complete dev-1"):
        done = sh(f"git-agentos {text}", own, AGENTOS_AGENT_ID="dev-1", THERE=str(other.of["dev-1"]))
        assert done.code == 3, str(done)


def test_a_page_overwrites_nothing(field: Field) -> None:
    own, other = field.of["dev-1"], field.of["dev-2"]
    before = field.state()
    git_dir = subprocess.run(["git", "rev-parse", "--git-dir"], cwd=own, capture_output=True, check=True)
    for page in (
        "draft.txt",
        str(other / "new.html"),
        str(other / "draft.txt"),
        f"{git_dir.stdout.decode().strip()}/x",
    ):
        assert run(own, "log", "review", "--html", page).code == 3, page
    assert field.state() == before
    assert run(own, "log", "review", "--html", "page.html").code == 0
    (own / "page.html").unlink()


def test_agents_commands_in_its_own_worktree_are_allowed(own_field: Field) -> None:
    own = own_field.of["dev-1"]
    (own / "draft.txt").write_text("spoilt\n")
    run_ok(own, "restore", "latest", "--no-branch")
    assert (own / "draft.txt").read_text() == "not committed\n"
    run_ok(own, "undo")
    assert (own / "draft.txt").read_text() == "spoilt\n"
    assert run(own, "-C", str(own_field.of["dev-2"]), "checkpoint", "list").code == 0
    assert run(own, "worktree", "merge", "dev-2", "--dry-run").code == 0
    assert run(own, "worktree", "complete").code == 0
    # What it has made is its own as well.
    mine = Path(run_ok(own, "worktree", "create", "dev-3")["path"])
    run_ok(own, "-C", str(mine), "checkpoint")
    assert run(own, "-C", str(mine), "restore", "latest").code == 0


def test_a_person_does_it_all(own_field: Field) -> None:
    main = own_field.main
    run_ok(main, "-C", str(own_field.of["dev-2"]), "restore", "latest", "--no-branch")
    run_ok(main, "worktree", "merge", "dev-1")
    run_ok(main, "worktree", "remove", "dev-2")
    run_ok(main, "worktree", "archive", "dev-1")
    assert (main / "dev-1.txt").exists()
    assert not any(path.exists() for path in own_field.of.values())


def test_git_sends_a_person_anywhere(own_field: Field) -> None:
    """`git -C PATH` chooses where to work, as `git agentos -C PATH` does: the person stays one."""
    wanted = (
        "restore latest --no-branch", "undo", "recover", "log rebuild", "doctor --fix", "worktree complete",
        "guard enable", "guard disable", "worktree merge dev-2", "worktree archive dev-1",
    )  # fmt: skip
    text = "\n".join(f'git -C "$THERE" agentos {each} >&2; echo $?' for each in wanted)
    done = sh(text, own_field.main, THERE=str(own_field.of["dev-2"]))
    assert done.out.decode().split() == ["0"] * len(wanted), str(done)
    assert (own_field.main / "dev-2.txt").exists() and not own_field.of["dev-1"].exists()
    short = sh("git -C ../repo.worktrees/dev-2 -c alias.ao=agentos ao restore latest", own_field.main)
    assert short.code == 0, str(short)


def test_git_sends_an_agent_nowhere(field: Field) -> None:
    before = field.state()
    script = """
        git -C "$MAIN" agentos worktree remove dev-2; echo $?
        (cd / && PWD=/ git -C "$MAIN" agentos worktree remove dev-2); echo $?
        PWD="$MAIN" git -C "$OWN" agentos worktree merge dev-1; echo $?
        PWD="$MAIN" git -C . agentos worktree merge dev-1; echo $?
        exec git -C "$OWN" agentos worktree merge dev-1
    """
    done = sh(script, field.of["dev-1"], MAIN=str(field.main), OWN=str(field.of["dev-1"]))
    assert (done.out.decode().split(), done.code) == (["3"] * 4, 3), str(done)
    assert field.state() == before


def test_a_request_shows_what_runs_not_what_calls_itself_git(own_field: Field) -> None:
    own = own_field.of["dev-1"]
    (own / "agentos").write_text("git-agentos worktree remove dev-2\ntrue\n")
    done = subprocess.run(
        ["bash", "-c", "exec -a git bash agentos worktree remove dev-1"],
        cwd=own, capture_output=True, timeout=120, env={**os.environ, **_PATH},
    )  # fmt: skip
    assert b"needs approval" in done.stderr, done.stderr
    [waiting] = run_ok(own_field.main, "approvals", "list")["approvals"]
    assert waiting["argv"] == ["git-agentos", "worktree", "remove", "dev-2"]


def test_a_grant_is_good_for_one_run(own_field: Field) -> None:
    own, main = own_field.of["dev-1"], own_field.main
    merge = ("worktree", "merge", "dev-1")
    assert run(own, *merge).code == 3
    [waiting] = run_ok(main, "approvals", "list")["approvals"]
    assert waiting["argv"] == ["git", "agentos", *merge]
    assert at_terminal(main, "approvals", "grant", waiting["id"]).code == 0
    assert run(own, "worktree", "merge", "dev-1", "--squash").code == 3
    done = run(own, *merge)
    assert done.code == 0, str(done)
    assert (main / "dev-1.txt").exists()
    assert run(own, *merge).code == 3


def test_a_grant_lets_the_shim_and_the_command_pass(own_field: Field) -> None:
    own, main = own_field.of["dev-1"], own_field.main
    script = "git-agentos guard exec -- git agentos worktree merge dev-1"
    assert sh(script, own).code == 3
    [waiting] = run_ok(main, "approvals", "list")["approvals"]
    assert at_terminal(main, "approvals", "grant", waiting["id"]).code == 0
    done = sh(script, own)
    assert done.code == 0, str(done)
    assert (main / "dev-1.txt").exists()
    assert sh(script, own).code == 3


def test_policy_decides(own_field: Field) -> None:
    own_field.repo.config("agentos.policy.agentos-change", "forbid")
    refused = run(own_field.of["dev-1"], "worktree", "remove", "dev-2")
    assert refused.code == 3
    assert b"stopped" in refused.err and not run_ok(own_field.main, "approvals", "list")["approvals"]
    set_up(own_field.repo, "agentos.policy.agentos-change", "allow")
    assert run(own_field.of["dev-1"], "worktree", "remove", "dev-2").code == 0


# -- the Python API ----------------------------------------------------------------------------------------------------

_API = """
import sys
from git_agentos import GitWorktreeWorkspaceService, open_workspace
from git_agentos.errors import AgentosError, PolicyError
from git_agentos.run import accept
from git_agentos.run import cleanup
from git_agentos.run import commands
from git_agentos.run import spec
from git_agentos.worktree import archive, complete, create, merge, remove
here, other = open_workspace("."), open_workspace(sys.argv[1])
context = here.context
calls = [
    lambda: merge.merge(context, ["dev-1"]),
    lambda: remove.remove(context, "dev-2", delete_branch=True),
    lambda: archive.archive(context, "dev-2"),
    lambda: complete.complete(context, "dev-2"),
    lambda: other.restore("latest", no_branch=True),
    lambda: other.undo(),
    lambda: here.doctor(fix=True),
    lambda: create.create(context, "dev-9", guard=False),
    lambda: commands.start(context, spec.from_options(["true"], [])),
    lambda: commands.rollback(context, "r1", "pre_run"),
    lambda: accept.accept(context, "r1"),
    lambda: GitWorktreeWorkspaceService(".", guard=False).prepare_pre_run(run_id="r2"),
    lambda: GitWorktreeWorkspaceService(".", run_id="r1").rollback_pre_run(),
    lambda: GitWorktreeWorkspaceService(".", run_id="r1").accept(),
    lambda: GitWorktreeWorkspaceService(".", run_id="r1").end("passed"),
    lambda: GitWorktreeWorkspaceService(".", run_id="r1").cancel(roll_back=True),
    lambda: GitWorktreeWorkspaceService(".", run_id="r1").abandon("why"),
    lambda: cleanup.cleanup(context, ["r1"]),
]
for call in calls:
    try:
        call()
        print("done")
    except PolicyError as error:
        print("refused")
    except AgentosError as error:
        print("error")
here.checkpoint()
here.restore("latest", no_branch=True)
"""


def test_the_python_api_asks_in_an_agents_process(field: Field) -> None:
    before = field.state()
    done = subprocess.run(
        [sys.executable, "-c", _API, field.of["dev-2"]], cwd=field.of["dev-1"], capture_output=True, timeout=120
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode().split() == ["refused"] * 18
    assert field.state() == before


def test_variables_that_are_set_later_change_no_workspace(field: Field) -> None:
    code = """
import os, sys
from git_agentos import open_workspace
from git_agentos.errors import PolicyError
own, other = open_workspace("."), open_workspace(sys.argv[1])
os.environ.update(GIT_DIR=own.context.location.git_dir, GIT_WORK_TREE=os.getcwd())
try:
    other.undo()
except PolicyError:
    print("refused")
"""
    argv = [sys.executable, "-c", code, str(field.of["dev-2"])]
    done = subprocess.run(argv, cwd=field.of["dev-1"], capture_output=True, timeout=120)
    assert done.stdout == b"refused\n", done.stderr.decode()


def test_a_grant_is_good_for_one_call_of_the_api(own_field: Field) -> None:
    own, main = own_field.of["dev-1"], own_field.main
    code = """
from git_agentos import open_workspace
from git_agentos.errors import PolicyError
from git_agentos.worktree import merge, remove
context = open_workspace(".").context
for call in (lambda: merge.merge(context, ["dev-1"]), lambda: remove.remove(context, "dev-2")):
    try:
        call()
        print("done")
    except PolicyError:
        print("refused")
"""

    def script() -> list[str]:
        done = subprocess.run([sys.executable, "-c", code], cwd=own, capture_output=True, timeout=120, check=True)
        return done.stdout.decode().split()

    assert script() == ["refused", "refused"]
    waiting = {each["argv"][5]: each["id"] for each in run_ok(main, "approvals", "list")["approvals"]}
    assert at_terminal(main, "approvals", "grant", waiting["merge"]).code == 0
    assert script() == ["done", "refused"]
    assert own_field.of["dev-2"].exists()


def test_an_orchestrators_process_is_not_stopped(own_field: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    from git_agentos import open_workspace
    from git_agentos.worktree import removal

    monkeypatch.chdir(own_field.main)
    workspace = open_workspace(own_field.of["dev-2"], agent="dev-2")
    workspace.restore("latest", no_branch=True)
    removal.remove(workspace.context, "dev-1")
    assert not own_field.of["dev-1"].exists()


def test_observers_of_a_call_are_not_options_of_its_command() -> None:
    """An agent's grant is bound to the options: an observer, which is another object each time, must not be one."""
    names = "run.accept run.cleanup run.commands run.workspace tdd.workflows workspace".split()
    found = []
    for name in names:
        module = importlib.import_module(f"git_agentos.{name}")
        for function in vars(module).values():
            if inspect.isfunction(function) and hasattr(function, "__wrapped__"):
                parameters = inspect.signature(function).parameters.values()
                found += [each.name for each in parameters if "Observer" in str(each.annotation)]
    assert found
    assert set(found) <= set(authorize.NOT_CHECKED)
