"""Where the workflow database goes: the three public functions, in real repositories and processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from git_agentos import ensure_agentos_dir, get_checkpoint_db_path, get_repo_root
from git_agentos.errors import AgentosError, WorkflowConfigurationError
from git_agentos.git.location import locate
from git_agentos.store import database_path
from tests.support.repo import Repo

NAME = "AGENTOS_WORKFLOW_DB"


def linked(repo: Repo, name: str) -> Repo:
    """A worktree of `repo`."""
    path = repo.scratch / name
    repo.git("worktree", "add", "-q", "-b", f"b-{name}", str(path))
    return Repo(path)


def status(repo: Repo) -> bytes:
    return repo.git("status", "--porcelain", "--ignored", "--untracked-files=all")


def test_the_worktrees_own_file_from_anywhere_in_it(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    for where in (repo, linked(repo, "one"), linked(repo, "two")):
        where.mkdir("deep/er")
        for inside in (where.path, where.path / "deep" / "er"):
            monkeypatch.chdir(inside)
            assert get_repo_root() == where.path
            assert get_checkpoint_db_path() == str(where.path / ".agentos" / "issue_workflow.db")
        assert where.read(".agentos/.gitignore") == b"*\n"
        assert not where.exists(".agentos/issue_workflow.db")
    assert not os.path.exists(repo.path / "deep" / ".agentos")


def test_the_types(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repo.path)
    assert isinstance(get_repo_root(), Path)
    assert isinstance(ensure_agentos_dir(repo.path), Path)
    assert isinstance(get_checkpoint_db_path(), str)


def test_git_sees_nothing_of_it(repo: Repo) -> None:
    ensure_agentos_dir(repo.path)
    repo.write(".agentos/issue_workflow.db", "data")
    assert repo.git("status", "--porcelain", "--untracked-files=all") == b""
    repo.git("add", "-A")
    assert repo.git("status", "--porcelain", "--untracked-files=all") == b""


def test_no_checkpoint_sees_anything_of_it(repo: Repo) -> None:
    from git_agentos import open_workspace

    before = open_workspace(repo.path).checkpoint("before")
    ensure_agentos_dir(repo.path)
    os.unlink(repo.at(".agentos/.gitignore"))
    after = open_workspace(repo.path).checkpoint("with the bare folder", trigger="periodic")
    assert (after.id, after.unchanged) == (before.id, True)
    repo.write(".agentos/anything", "x")
    assert open_workspace(repo.path).checkpoint(trigger="periodic").id == before.id
    open_workspace(repo.path).restore("latest", no_branch=True)
    assert repo.read(".agentos/anything") == b"x"


def test_the_variable(repo: Repo, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repo.path)
    for value, expected in (
        (str(tmp_path / "a/b/c.db"), tmp_path / "a/b/c.db"),
        ("~/flows/x.db", home / "flows/x.db"),
        ("down/here.db", repo.path / "down/here.db"),
        (f"{tmp_path}/a/../d/e.db", tmp_path / "d/e.db"),
    ):
        monkeypatch.setenv(NAME, value)
        assert get_checkpoint_db_path() == str(expected)
        assert expected.parent.is_dir()
        assert not expected.exists()
    assert not repo.exists(".agentos")
    monkeypatch.setenv(NAME, "")
    assert get_checkpoint_db_path() == str(repo.path / ".agentos/issue_workflow.db")


def test_the_variable_needs_no_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(NAME, str(tmp_path / "x.db"))
    assert get_checkpoint_db_path() == str(tmp_path / "x.db")


def test_a_server_is_for_the_workflow_alone(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repo.path)
    url = "postgresql://u:p@host/db"
    monkeypatch.setenv(NAME, url)
    assert get_checkpoint_db_path() == url
    own = str(repo.path / ".agentos/issue_workflow.db")
    assert database_path.path_of(locate("."), "") == own
    from git_agentos import log, open_workspace

    log.add(open_workspace(".").context, "action", "done")
    assert os.path.isfile(own)
    assert sorted(os.listdir(repo.path)) == sorted({*os.listdir(repo.path)} - {"postgresql:"})


def test_outside_and_bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    bare = tmp_path / "bare.git"
    subprocess.run(["git", "init", "-q", "--bare", str(bare)], check=True)
    for where in (tmp_path, bare):
        monkeypatch.chdir(where)
        for function in (get_repo_root, get_checkpoint_db_path):
            with pytest.raises(WorkflowConfigurationError, match=NAME) as caught:
                function()
            assert isinstance(caught.value, RuntimeError)
            assert isinstance(caught.value, AgentosError)
        assert not (where / ".agentos").exists()
    monkeypatch.chdir(bare)
    with pytest.raises(WorkflowConfigurationError, match="bare"):
        get_repo_root()


def test_location_without_git(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repo.path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(WorkflowConfigurationError, match=f"git is not on the PATH.*{NAME}"):
        get_checkpoint_db_path()


def test_a_folder_that_cannot_be_made(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repo.path)
    (tmp_path / "file").write_text("x")
    for value in (str(tmp_path / "file" / "x.db"), str(tmp_path)):
        monkeypatch.setenv(NAME, value)
        with pytest.raises(WorkflowConfigurationError, match=NAME):
            get_checkpoint_db_path()


def test_an_existing_folder_keeps_its_contents(repo: Repo) -> None:
    repo.write(".agentos/issue_workflow.db", "old")
    repo.write(".agentos/more/x", "x")
    assert ensure_agentos_dir(repo.path) == repo.path / ".agentos"
    assert repo.read(".agentos/.gitignore") == b"*\n"
    assert (repo.read(".agentos/issue_workflow.db"), repo.read(".agentos/more/x")) == (b"old", b"x")
    repo.write(".agentos/.gitignore", "mine\n")
    ensure_agentos_dir(repo.path)
    assert repo.read(".agentos/.gitignore") == b"mine\n"


def test_a_link_is_not_followed(repo: Repo, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    repo.link(".agentos", str(elsewhere))
    with pytest.raises(WorkflowConfigurationError, match="symbolic link"):
        ensure_agentos_dir(repo.path)
    assert list(elsewhere.iterdir()) == []
    os.unlink(repo.at(".agentos"))
    repo.link(".agentos", "dangling")
    with pytest.raises(WorkflowConfigurationError, match="symbolic link"):
        ensure_agentos_dir(repo.path)
    assert not repo.exists("dangling")


def test_a_file_is_not_replaced(repo: Repo) -> None:
    repo.write(".agentos", "a file\n")
    with pytest.raises(WorkflowConfigurationError, match="not a directory"):
        ensure_agentos_dir(repo.path)
    assert repo.read(".agentos") == b"a file\n"


@pytest.mark.parametrize("version", ["2", "4", "split"])
def test_tracked_database_is_refused(repo: Repo, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repository could ship a database, or a `.gitignore` that shows what is put beside it."""
    if version == "split":
        repo.git("update-index", "--split-index")
    else:
        repo.config("index.version", version)
    repo.write(".agentfoo", "a neighbour in the index\n")
    repo.write(".agentos/issue_workflow.db", "planted")
    repo.git("add", "-f", ".agentfoo", ".agentos/issue_workflow.db")
    repo.git("commit", "-q", "-m", "planted")
    before = status(repo)
    monkeypatch.chdir(repo.path)
    for function in (lambda: ensure_agentos_dir(repo.path), get_checkpoint_db_path):
        with pytest.raises(WorkflowConfigurationError, match=r"git tracks '\.agentos/issue_workflow\.db'"):
            function()
    assert (status(repo), repo.read(".agentos/issue_workflow.db")) == (before, b"planted")
    assert sorted(os.listdir(repo.at(".agentos"))) == [b"issue_workflow.db"]
    repo.git("rm", "-q", "-r", "--cached", ".agentos")
    assert ensure_agentos_dir(repo.path) == repo.path / ".agentos"


@pytest.mark.parametrize("planted", ["a file", "a repository"])
def test_tracked_file_or_submodule_in_its_place_is_refused(repo: Repo, planted: str) -> None:
    if planted == "a file":
        repo.write(".agentos", "x\n")
        repo.git("add", ".agentos")
        os.unlink(repo.at(".agentos"))
    else:
        repo.git("update-index", "--add", "--cacheinfo", f"160000,{repo.oid()},.agentos")
    with pytest.raises(WorkflowConfigurationError, match=r"git tracks '\.agentos'"):
        ensure_agentos_dir(repo.path)
    assert not repo.exists(".agentos")


def test_a_planted_database_is_neither_read_nor_written(repo: Repo) -> None:
    from git_agentos import log, open_workspace

    context = open_workspace(repo.path).context
    log.add(context, "action", "mine")
    repo.git("add", "-f", ".agentos/issue_workflow.db")
    repo.git("commit", "-q", "-m", "planted")
    before = repo.read(".agentos/issue_workflow.db")
    with pytest.raises(WorkflowConfigurationError, match="git tracks"):
        log.add(context, "action", "more")
    with pytest.warns(UserWarning, match="git tracks"):
        checkpoint = open_workspace(repo.path).checkpoint("all the same")
    assert repo.read(".agentos/issue_workflow.db") == before
    assert b"log.jsonl" not in repo.git("ls-tree", "--name-only", f"{checkpoint.id}^4")


@pytest.mark.parametrize("name", ["issue_workflow.db", "issue_workflow.db-wal", "issue_workflow.db.lock"])
def test_a_database_that_is_a_link_is_refused(repo: Repo, tmp_path: Path, name: str) -> None:
    from git_agentos import log, open_workspace

    target = tmp_path / "target"
    target.write_bytes(b"")
    ensure_agentos_dir(repo.path)
    repo.link(f".agentos/{name}", str(target))
    with pytest.raises(WorkflowConfigurationError, match="not a regular file"):
        log.add(open_workspace(repo.path).context, "action", "x")
    assert target.read_bytes() == b""


def test_ten_processes_make_it_at_once(repo: Repo) -> None:
    code = (
        "import sys, pathlib\n"
        "from git_agentos.store import ensure_agentos_dir\n"
        "print('ready', flush=True); sys.stdin.read()\n"
        "folder = ensure_agentos_dir(pathlib.Path(sys.argv[1]))\n"
        "print((folder / '.gitignore').read_text() == '*\\n')\n"
    )
    for _ in range(3):
        workers = [
            subprocess.Popen(
                [sys.executable, "-c", code, str(repo.path)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )
            for _ in range(10)
        ]  # fmt: skip
        for worker in workers:
            assert worker.stdout is not None
            worker.stdout.readline()
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.close()
            worker.stdin = None
        for worker in workers:
            out, err = worker.communicate(timeout=60)
            assert (worker.returncode, out) == (0, b"True\n"), err.decode()
        assert os.listdir(repo.at(".agentos")) == [b".gitignore"]
        repo.remove(".agentos")


def test_nine_processes_in_three_repositories_with_three_worktrees(make_repo: Callable[[str], Repo]) -> None:
    """Each gets its own, and what each writes is in its own alone."""
    code = (
        "import sys, json\n"
        "from git_agentos import get_checkpoint_db_path, log, open_workspace\n"
        "print('ready', flush=True); sys.stdin.read()\n"
        "path = get_checkpoint_db_path()\n"
        "for n in range(5):\n"
        "    log.add(open_workspace('.').context, 'action', f'{sys.argv[1]} {n}')\n"
        "print(json.dumps([path, sorted(e.summary for e in log.entries(open_workspace('.').context))]))\n"
    )
    places: dict[str, Path] = {}
    for name in ("a", "b", "c"):
        repo = make_repo(name)
        places[f"{name}-main"] = repo.path
        places |= {f"{name}-{each}": linked(repo, each).path for each in ("one", "two")}
    workers = {
        label: subprocess.Popen(
            [sys.executable, "-c", code, label],
            cwd=path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for label, path in places.items()
    }  # fmt: skip
    for worker in workers.values():
        assert worker.stdout is not None
        worker.stdout.readline()
    for worker in workers.values():
        assert worker.stdin is not None
        worker.stdin.close()
        worker.stdin = None
    for label, worker in workers.items():
        out, err = worker.communicate(timeout=120)
        assert worker.returncode == 0, err.decode()
        path, summaries = json.loads(out)
        assert path == str(places[label] / ".agentos" / "issue_workflow.db")
        assert summaries == [f"{label} {n}" for n in range(5)]


def test_import_loads_no_heavy_module(repo: Repo) -> None:
    code = (
        "import sys\n"
        "from git_agentos import get_checkpoint_db_path\n"
        "get_checkpoint_db_path()\n"
        "heavy = ('sqlite3', 'git_agentos.git.objects.libgit2', 'pygit2', 'typer', 'json')\n"
        "print([name for name in heavy if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=repo.path, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_repository_keeps_its_id_when_it_moves(repo: Repo, tmp_path: Path) -> None:
    first = database_path.repository_id(locate(str(repo.path)))
    assert len(first) == 32
    os.rename(repo.path, tmp_path / "moved")
    assert database_path.repository_id(locate(str(tmp_path / "moved"))) == first
