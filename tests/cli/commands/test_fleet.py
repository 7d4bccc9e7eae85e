"""`git agentos fleet` as people and scripts see it."""

from __future__ import annotations

from pathlib import Path

from git_agentos.fleet import names
from git_agentos.fleet.records import Result
from tests.support.fleet_engine import NOW, put_result, remote_of, tasks_file
from tests.support.json_reference import check_document
from tests.support.repo import Repo, git
from tests.support.tool import run, run_ok
from tests.support.waiting import wait_until


def test_a_fleet_of_which_nothing_runs_here(repo: Repo, shared: Path, tmp_path: Path) -> None:
    path = tasks_file(tmp_path, "a", "b")
    template = f"echo {{command}} >>'{tmp_path}/started'"
    words = ("fleet", "submit", path, "--engine", "command", "--command", template)
    plan = run(repo.path, *words, "--dry-run")
    assert plan.code == 0 and b"would start  b\n    agent: echo b >f\n" in plan.out
    assert git(shared, "for-each-ref") == b""
    dry = run_ok(repo.path, *words, "--dry-run")
    assert check_document(dry) == "fleet"
    assert dry["counts"]["waiting"] == 2
    assert not (tmp_path / "started").exists()
    assert run_ok(repo.path, *words, "--detach")["counts"]["waiting"] == 2
    rows = run(repo.path, "fleet", "status", "f").out.decode().splitlines()[-2:]
    assert [line.split(maxsplit=2)[:2] for line in rows] == [["a", "waiting"], ["b", "waiting"]]
    assert all("not begun, submitted " in line and line.endswith((" ago", " now")) for line in rows)
    assert git(shared, "for-each-ref", "--format=%(refname)").decode().split() == [names.tasks_ref("f")]
    remote = remote_of(repo)
    for task in ("a", "b"):
        put_result(
            remote, "f", Result(task, "passed", 1, "ok", "machine", NOW, NOW, commit=repo.oid(), run_id=f"f-{task}")
        )
    log = repo.git_dir / "agentos/fleets/f.log"
    wait_until(lambda: log.exists() and b"2 passed" in log.read_bytes(), "the process in the background has ended")
    done = run_ok(repo.path, "fleet", "submit", path)
    assert check_document(done) == "fleet"
    assert done["counts"]["passed"] == 2
    assert run_ok(repo.path, "fleet", "status", "f") == done
    assert run_ok(repo.path, "fleet", "status", "f", "--follow") == done
    listed = run_ok(repo.path, "fleet", "list")
    assert check_document(listed) == "fleets"
    assert [each["id"] for each in listed["fleets"]] == ["f"]
    assert run_ok(repo.path, "fleet", "cancel", "f") == done
    shown = run(repo.path, "fleet", "status", "f", "--no-fetch").out.decode()
    assert shown.startswith("fleet f on origin: 2 tasks by the engine command, from ") and "\n2 passed\n" in shown
    assert run(repo.path, "-q", "fleet", "status", "f").out == b"a\nb\n"


def test_exit_codes(repo: Repo, shared: Path, tmp_path: Path) -> None:
    path = tasks_file(tmp_path, "a")
    for words, code in (
        (("submit", path, "--engine", "other"), 2),
        (("submit", path, "--max-parallel", "0"), 2),
        (("submit", path, "--pass-env", "NOT_THERE"), 2),
        (("submit", str(tmp_path / "none")), 2),
        (("status", "f"), 1),
        (("status", "f", "--follow", "--no-fetch"), 2),
        (("logs", "f", "a"), 1),
        (("cancel", "f"), 1),
    ):
        assert run(repo.path, "fleet", *words).code == code, words
    assert git(shared, "for-each-ref") == b""
