"""What is searched beside the content of files, and by whom: messages, names, and a program that is installed.

gitleaks is not installed where these tests run: a program of a few lines writes the report that it documents.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.json_reference import check_document
from tests.support.remotes import clone, refs_on, sync
from tests.support.repo import Repo, git
from tests.support.tool import run, run_ok

# Made up, and put together here: no scanner of this project's own files is to find it.
SECRET = "ghp_" + "x7Qm2Lr9Tz" * 3 + "4Wv8Np"
ODD = "odd-" + "Zk3" + "x7Qm2Lr9Tz" * 2

STAND_IN = """\
#!{python}
import json, os, re, sys
argv = sys.argv[1:]
open(__file__ + ".calls", "a").write(json.dumps(argv) + "\\n")
report, found = argv[argv.index("--report-path") + 1], []
for folder, _, names in os.walk("."):
    for name in names:
        path = os.path.join(folder, name)
        for number, line in enumerate(open(path, "rb").read().decode("latin-1").split("\\n"), 1):
            for word in re.findall(r"odd-[A-Za-z0-9]+", line):
                found.append({{"RuleID": "odd-key", "StartLine": number, "Secret": word, "File": path}})
{end}
"""
WRITE = 'open(report, "w").write(json.dumps(found))'


@pytest.fixture
def shared(repo: Repo, shared: Path) -> Path:
    repo.git("push", "-q", "origin", "main")
    return shared


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that comes first on PATH."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    return folder


def install(folder: Path, end: str = WRITE) -> Path:
    program = folder / "gitleaks"
    program.write_text(STAND_IN.format(python=sys.executable, end=end))
    program.chmod(0o755)
    return program


def save(repo: Repo, text: str = "") -> str:
    return str(run_ok(repo.path, "checkpoint", "-m", text)["id"])


def held_back(repo: Repo) -> list[Any]:
    """What `sync` holds back, without its kind and fingerprint; neither form of it prints the secret."""
    done = run(repo.path, "--json", "sync")
    assert done.code == 3, str(done)
    check_document(done.json)
    shown = run(repo.path, "sync")
    assert shown.code == 3, str(shown)
    assert SECRET.encode() not in done.out + done.err + shown.out + shown.err
    rows = done.json["held_back"]
    assert all(each["kind"] and each["fingerprint"] for each in rows)
    return [(each["checkpoint"], each["path"], each["line"]) for each in rows]


def test_the_message_of_a_commit(repo: Repo, shared: Path) -> None:
    """Of one's own commits, also of one that no branch leads to any more."""
    before = save(repo, "before")
    repo.write("notes.txt", "more\n")
    repo.git("commit", "-qam", f"a subject\n\nthe token is {SECRET}\n")
    commit = repo.oid("HEAD")
    repo.git("commit", "-q", "--allow-empty", "-m", "another")
    after = save(repo, "on top")
    assert held_back(repo) == [(after, f"the message of commit {commit[:12]}", 3)]
    assert refs_on(shared)["desk/timelines/main"] == repo.oid("refs/agentos/timelines/main~1")
    assert git(shared, "log", "--all", "--format=%B").find(SECRET.encode()) < 0
    assert before in git(shared, "log", "--all", "--format=%H").decode()


def test_the_description(repo: Repo, shared: Path) -> None:
    """It is in `meta.json` as well, and said once."""
    oid = save(repo, f"with {SECRET}")
    rows = held_back(repo)
    assert [row[:2] for row in rows] == [(oid, "meta.json")]


@pytest.mark.parametrize("name", [f"{SECRET}.txt", f"{SECRET}/file", f"a/{SECRET}/b/c", f"b/x\n{SECRET}"])
def test_the_name_of_a_file_in_a_commit(name: str, repo: Repo, shared: Path) -> None:
    """The file is empty, or was there under another name: no object of it is new."""
    repo.write("empty", "")
    repo.commit("one")
    repo.git("push", "-q", "origin", "main")
    repo.write(name, "")
    repo.commit("with a name")
    repo.git("rm", "-q", name)
    repo.git("commit", "-qm", "gone")
    oid = save(repo, "on top")
    parts = ["[redacted]" if SECRET in each else each for each in name.split("/")]
    assert held_back(repo) == [(oid, "/".join(parts), None)]
    assert refs_on(shared) == {}


def test_the_name_of_a_file_that_is_not_committed(repo: Repo, shared: Path) -> None:
    repo.write("empty", "")
    repo.commit("one")
    repo.git("push", "-q", "origin", "main")
    repo.write(f"new/{SECRET}", "")
    oid = save(repo)
    rows = held_back(repo)
    assert {row[:2] for row in rows} == {(oid, "meta.json")}
    assert refs_on(shared) == {}


def test_a_secret_in_a_file_whose_name_has_one(repo: Repo, shared: Path) -> None:
    repo.write(f"a/{SECRET}/settings", f"token = {SECRET}\n")
    oid = save(repo)
    assert (oid, "a/[redacted]/settings", 1) in held_back(repo)


def test_names_that_the_remote_has(repo: Repo, shared: Path) -> None:
    """Also where one's own branch takes them over by a merge."""
    repo.git("switch", "-qc", "theirs")
    repo.write(SECRET, "")
    repo.commit("with a name")
    repo.git("push", "-q", "origin", "theirs")
    repo.git("switch", "-q", "main")
    repo.git("commit", "-q", "--allow-empty", "-m", "mine")
    repo.git("merge", "-q", "--no-edit", "theirs")
    save(repo)
    assert sync(repo)["pushed"][0]["checkpoints"] == 1


# -- a program that is installed ---------------------------------------------------------------------------------------


def test_what_a_program_finds_is_held_back(repo: Repo, shared: Path, programs: Path) -> None:
    """In one start; a comment in the file does not exempt it. Without the program it is looked at again."""
    program = install(programs)
    first = save(repo, "without")
    repo.write("src/settings.py", f"one = 1\nkey = '{ODD}'  # gitleaks:allow\n")
    second = save(repo, "with it")
    repo.commit(f"a message with {ODD}")
    third = save(repo, "on top")
    commit = repo.oid("HEAD")
    calls = Path(f"{program}.calls")
    assert held_back(repo) == [
        (second, "src/settings.py", 2),
        (third, "src/settings.py", 2),
        (third, f"the message of commit {commit[:12]}", 1),
    ]
    started = [json.loads(line) for line in calls.read_text().splitlines()]
    assert [argv[0] for argv in started] == ["dir"], "what is known to be held back is not given to it again"
    assert git(shared, "log", "--all", "--format=%H").decode().split().count(first) == 1

    program.write_text(program.read_text().replace("odd-[A-Za-z0-9]+", "none-at-all"))
    assert sync(repo)["pushed"][0]["checkpoints"] == 2, "another program may find something else"


@pytest.mark.parametrize("end", ["sys.exit(2)", "pass", "os.kill(os.getpid(), 15)"])
def test_a_program_that_fails_stops_the_push(
    end: str, repo: Repo, shared: Path, programs: Path, tmp_path: Path
) -> None:
    """Nothing leaves, and it is said why and what to do; fetching alone does not need it."""
    install(programs, end)
    save(repo)
    for words in ([], ["--push"], ["--dry-run"]):
        done = run(repo.path, "--json", "sync", *words)
        error = done.json["error"]
        assert (done.code, error["kind"]) == (1, "error"), str(done)
        assert "so what is new was not scanned by it" in error["message"]
        assert "remove it from PATH" in error["hint"]
    assert refs_on(shared) == {}
    sync(repo, "--fetch")
    install(programs)
    assert sync(repo)["pushed"][0]["checkpoints"] == 1


def test_a_program_in_the_repository_is_not_asked(repo: Repo, shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (repo.path / "bin").mkdir()
    program = install(repo.path / "bin", "sys.exit(1)")
    monkeypatch.setenv("PATH", f"{repo.path / 'bin'}", prepend=":")
    save(repo)
    sync(repo)
    assert not Path(f"{program}.calls").exists()


def test_nothing_new_starts_no_program(repo: Repo, shared: Path, programs: Path, tmp_path: Path) -> None:
    save(repo)
    program = install(programs)
    sync(repo)
    sync(repo)
    sync(clone(tmp_path, shared, "lap"))
    assert len(Path(f"{program}.calls").read_text().splitlines()) == 1
