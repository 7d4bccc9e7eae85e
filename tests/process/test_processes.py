"""Who works in a folder, whose lock it is, programs in groups of their own, folders deleted behind one's back."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from git_agentos.process import deletion, mounts, occupants, programs, table
from tests.support.repo import Repo
from tests.support.waiting import running_process, wait_until

_NO_PROCESS = 2**22 + 1
_ENV = {"PATH": os.environ["PATH"]}


def test_a_process_that_stands_in_a_folder_or_has_a_file_open_is_inside(tmp_path: Path) -> None:
    folder = tmp_path / "wörk\udcff tree"
    (folder / "deep").mkdir(parents=True)
    (tmp_path / (folder.name + "-beside")).mkdir()
    assert occupants.find(str(folder)) == []
    with open(folder / "deep/file", "w") as file, running_process("sleep", "600", cwd=folder / "deep") as first:
        os.set_inheritable(file.fileno(), True)
        with running_process("sleep", "600", cwd=tmp_path, pass_fds=[file.fileno()]) as second:
            file.close()
            with running_process("sleep", "600", cwd=tmp_path / (folder.name + "-beside")):
                found = {each.pid: each for each in occupants.find(str(folder))}
    assert set(found) == {first.pid, second.pid}
    assert (found[first.pid].how, found[first.pid].path) == ("cwd", str(folder / "deep"))
    assert (found[second.pid].how, found[second.pid].path) == ("open", str(folder / "deep/file"))
    assert not any(each.ancestor for each in found.values())
    wait_until(lambda: occupants.find(str(folder)) == [], "they have ended")


@pytest.mark.parametrize(
    ("git", "arguments", "counts"),
    [
        ("git", (), True),
        ("git --no-optional-locks", (), False),
        ("GIT_OPTIONAL_LOCKS=0 git", (), False),
        ("git", ("watch", "start", "--foreground"), False),
        ("git", ("watch", "start"), True),
    ],
)
def test_a_git_that_only_looks_makes_no_folder_busy(
    repo: Repo, git: str, arguments: tuple[str, ...], counts: bool
) -> None:
    script = f"{git} -C {repo.path} cat-file --batch; exit"  # not the last command, so the shell stays its parent
    with subprocess.Popen(
        ["sh", "-c", script, "sh", *arguments], cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        start_new_session=True,
    ) as shell:  # fmt: skip
        assert shell.stdin is not None and shell.stdout is not None
        shell.stdin.write(b"HEAD^{tree}\n")
        shell.stdin.flush()
        shell.stdout.readline()  # git is at work, in the folder
        [child] = table.children(shell.pid)
        assert [each.pid for each in occupants.find(str(repo.path))] == [child]
        seen = _standing_in_another_process(repo.path)
        assert seen == [child] * counts
        assert occupants.standing_in([str(repo.path)])[str(repo.path)] == []  # this process has started it
        shell.stdin.close()
        shell.stdout.read()


_FORKED = """
import os, sys
from git_agentos.process import occupants

(at, ready), (end, go) = os.pipe(), os.pipe()
child = os.fork()
if not child:
    os.chdir(sys.argv[1])
    os.write(ready, b"x")
    os.read(end, 1)
    os._exit(0)
os.read(at, 1)
print(child, len(occupants.standing_in([sys.argv[1]])[sys.argv[1]]), flush=True)
sys.stdin.read()
os.write(go, b"x")
os.waitpid(child, 0)
"""


def test_a_child_that_has_not_become_a_git_yet(tmp_path: Path) -> None:
    """It stands in the folder before it is the program that it was started for."""
    folder = tmp_path / "folder"
    folder.mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", _FORKED, folder], cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdin is not None and parent.stdout is not None
        child, seen = map(int, parent.stdout.readline().split())
        assert seen == 0
        assert _standing_in_another_process(folder) == [child]
        parent.stdin.close()


def _standing_in_another_process(folder: Path) -> list[int]:
    script = (
        "import sys; from git_agentos.process import occupants\n"
        "print(*(each.pid for each in occupants.standing_in([sys.argv[1]])[sys.argv[1]]))"
    )
    done = subprocess.run([sys.executable, "-c", script, folder], cwd="/", stdout=subprocess.PIPE, check=True)
    return [int(word) for word in done.stdout.split()]


def test_ps_says_what_proc_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What macOS has instead of /proc."""
    marked = {**os.environ, "AGENTOS_TEST_MARK": "a=b c"}
    script = f"{shutil.which('sleep')} 600 & echo $!; wait"
    with subprocess.Popen(["/bin/sh", "-c", script], cwd=tmp_path, env=marked, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        below = int(child.stdout.readline())

        def seen() -> tuple[object, ...]:
            return (
                table.parents(below)[:2],
                table.children(child.pid),
                table.descendants(child.pid),
                table.with_variable("AGENTOS_TEST_MARK", "a=b c"),
                table.argv(below),
                table.name(below),
                (table.environment(below) or {}).get("AGENTOS_TEST_MARK"),
                table.identify(below) == table.identify(below),
                {os.getpid(), child.pid, below} <= set(table.pids()),
                [table.is_alive(pid) for pid in (below, _NO_PROCESS)],
                table.identify(_NO_PROCESS),
            )

        try:
            # The shell prints the number of a process that may not have become `sleep` yet.
            wait_until(lambda: table.argv(below)[1:] == ("600",), "it has started")
            proc = seen()
            monkeypatch.setattr(table, "_PROC", str(tmp_path / "no proc"))
            assert not table.has_proc()
            assert seen() == proc
        finally:
            os.kill(below, signal.SIGKILL)
        child.wait()
    assert not table.is_alive(below)


def test_output_of_mount_is_parsed() -> None:
    out = (
        "/dev/disk3s1s1 on / (apfs, sealed, local, read-only, journaled)\n"
        "/dev/disk5 on /Volumes/My Disk (1) (exfat, local)\n"
        "/dev/wd0a on /usr type ffs (local)\n"
        "map auto_home on /System/Volumes/Data/home (autofs, automounted)\n"
    )
    assert list(mounts.parse_mount(out)) == [
        (b"/", "apfs"), (b"/Volumes/My Disk (1)", "exfat"), (b"/usr", "ffs"), (b"/System/Volumes/Data/home", "autofs"),
    ]  # fmt: skip


def test_lsof_output_is_parsed() -> None:
    assert occupants.parse_lsof("p7\ncsh\nfcwd\nn/t/a\\xff", os.fsdecode(b"/t/a\xff"), set())[0].pid == 7
    out = "p1\ncinit\nfcwd\nn/\np77\ncbash\nfcwd\nn/w/tree/deep\nftxt\nn/bin/bash\np78\ncvim\nfcwd\nn/w/tree-beside\n"
    found = occupants.parse_lsof(out, "/w/tree", {77})
    assert found == [occupants.Occupant(77, "bash", "cwd", "/w/tree/deep", True)]


def test_a_lock_that_nobody_can_have_made_is_stale(repo: Repo) -> None:
    lock = repo.path / ".git/index.lock"
    lock.write_bytes(b"")
    assert occupants.why_not_stale(str(lock), [str(repo.path)]) is None


def test_a_lock_that_a_process_has_open_is_not_stale(repo: Repo) -> None:
    lock = repo.path / ".git/index.lock"
    with open(lock, "w") as file, running_process("sleep", "600", cwd=Path("/"), pass_fds=[file.fileno()]) as child:
        file.close()
        reason = occupants.why_not_stale(str(lock), [str(repo.path)])
        assert reason is not None
        assert f"process {child.pid}" in reason


@pytest.mark.parametrize("where", ["cwd", "option", "variable"])
def test_a_lock_is_not_stale_while_a_git_works_in_the_repository(repo: Repo, tmp_path: Path, where: str) -> None:
    """It may have closed the lock, and wait for an editor."""
    lock = repo.path / ".git/index.lock"
    lock.write_bytes(b"")
    reader, writer = os.pipe()
    git = ["git", *([f"--git-dir={repo.path}/.git"] if where == "option" else []), "cat-file", "--batch"]
    env = {**os.environ, **({"GIT_DIR": str(repo.path / ".git")} if where == "variable" else {})}
    cwd = repo.path if where == "cwd" else tmp_path
    child = subprocess.Popen(git, cwd=cwd, env=env, stdin=reader, stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: "at work" in str(occupants.why_not_stale(str(lock), [str(repo.path)])), "git works there")
    finally:
        os.close(writer)
        os.close(reader)
        child.wait()
    assert occupants.why_not_stale(str(lock), [str(repo.path)]) is None


def test_a_lock_is_not_stale_where_other_machines_may_hold_it(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = repo.path / ".git/index.lock"
    lock.write_bytes(b"")
    monkeypatch.setattr(mounts, "file_system_of", lambda path: "nfs4")
    assert "other machines" in str(occupants.why_not_stale(str(lock), [str(repo.path)]))


def test_a_command_says_how_it_ended(tmp_path: Path) -> None:
    ended = programs.run_shell("echo one; echo two >&2; pwd; exit 3", cwd=str(tmp_path), env=_ENV)
    assert (ended.code, ended.timed_out) == (3, False)
    assert ended.output == f"one\ntwo\n{tmp_path}\n".encode()


def test_a_command_that_takes_too_long_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    script = "sleep 600 & echo $! >pid; echo begun; wait"
    ended = programs.run_shell(script, cwd=str(tmp_path), env=_ENV, timeout=5)
    assert ended.timed_out
    pid = int((tmp_path / "pid").read_text())
    wait_until(lambda: not _alive(pid), "the process that it started has ended")


def test_a_command_that_fails_leaves_nothing_running(tmp_path: Path) -> None:
    ended = programs.run_shell("sleep 600 & echo $! >pid; exit 1", cwd=str(tmp_path), env=_ENV)
    assert ended.code == 1
    wait_until(lambda: not _alive(int((tmp_path / "pid").read_text())), "the process that it started has ended")


def test_a_program_in_pipes_has_what_it_is_given(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    script = f"import os; print(os.getcwd(), os.getsid(0), os.read(0, 9)); os.write(2, os.read({reader}, 9))"
    with programs.start_piped([sys.executable, "-c", script], cwd=str(tmp_path), env=_ENV, keep=[reader]) as child:
        os.close(reader)
        os.write(writer, b"kept\n")
        os.close(writer)
        out, err = child.communicate()
    assert (out, err) == (f"{tmp_path} {child.pid} b''\n".encode(), b"kept\n")


def test_processes_with_a_variable_are_found(tmp_path: Path) -> None:
    def carrying(value: str) -> list[int]:
        return table.with_variable("TEST_MARK", value)

    value = f"{tmp_path}=é"
    with subprocess.Popen(["sleep", "600"], env={**_ENV, "TEST_MARK": value}) as child:
        try:
            wait_until(lambda: carrying(value) == [child.pid], "it has become what was started")
            assert carrying(value[:-1]) == []
        finally:
            child.kill()
        wait_until(lambda: not _alive(child.pid), "it has ended")
        assert carrying(value) == []


def test_ancestors_of_this_process() -> None:
    found = table.parents(os.getpid())
    assert os.getppid() in found
    assert os.getpid() not in found


def _alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] != b"Z"
    except FileNotFoundError:
        return False


def test_folders_are_deleted_by_a_process_that_outlives_its_caller(tmp_path: Path) -> None:
    for name in ("trash/one", "other/two"):
        (tmp_path / name / "deep").mkdir(parents=True)
        (tmp_path / name / "deep/file").write_text("x")
        (tmp_path / name / "deep").chmod(0o500)
    code = (
        "import os, sys; from git_agentos.process import deletion; deletion.remove_in_background(sys.argv[1:]);"
        "os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "trash/one"), str(tmp_path / "other/two")])
    assert done.returncode == -signal.SIGKILL
    wait_until(lambda: not list(tmp_path.iterdir()), "both folders are gone, and those that they were in")


def test_mounted_file_system_is_not_deleted(small_disk: Path) -> None:
    (small_disk / "file").write_text("precious")
    assert mounts.mounted_below(str(small_disk.parent)) != []
    assert not deletion.remove_folder(str(small_disk))
    assert (small_disk / "file").read_text() == "precious"
