"""What git knows of a file through stat(2): modes that do not count, times that lie, files that may not be written."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from tests.support.dirty import racily_changed, status
from tests.support.repo import Repo
from tests.support.scenario import Scenario, Scenarios, run_case
from tests.support.state import assert_same, assert_unchanged, complete_state
from tests.support.tool import COMMAND, IN_PROCESS, Tool, run, run_ok

SCENARIOS = Scenarios()


@SCENARIOS.add(permissions="ignore")
def _file_mode_false(repo: Repo) -> None:
    """Modes in the worktree mean nothing; the index's do, and stay."""
    repo.config("core.fileMode", "false")
    repo.chmod("readme.txt", 0o755)
    repo.chmod("run.sh", 0o644)
    repo.git("update-index", "--chmod=+x", "notes.txt")
    repo.append("run.sh", "# changed\n")
    repo.append("notes.txt", "changed\n")
    repo.write("new.sh", "#!/bin/sh\n", 0o755)
    repo.add("new.sh")
    repo.git("update-index", "--chmod=+x", "new.sh")
    repo.write("untracked.sh", "#!/bin/sh\n", 0o755)


@SCENARIOS.add(permissions="ignore")  # git knows no mode of a link
def _symlinks_false(repo: Repo) -> None:
    """`core.symlinks=false`: a link is a file that holds its target."""
    repo.config("core.symlinks", "false")
    repo.remove("link")
    repo.git("checkout", "-q", "--", "link")
    assert repo.read("link") == b"readme.txt"
    repo.write("link", "notes.txt")
    repo.write("plain.txt", "plain\n")


@SCENARIOS.add()
def _ignore_stat(repo: Repo) -> None:
    """`core.ignoreStat`: what git writes is marked assume-unchanged, and edits to it stay unseen (cline#13199)."""
    repo.config("core.ignoreStat", "true")
    repo.git("update-index", "--really-refresh")
    repo.git("reset", "-q", "--hard")
    repo.write("new.txt", "new\n")
    repo.git("add", "new.txt")
    repo.write("readme.txt", "unseen\n")
    repo.append("new.txt", "unseen too\n")
    repo.remove("notes.txt")


@SCENARIOS.add()
def _check_stat_minimal(repo: Repo) -> None:
    repo.config("core.checkStat", "minimal")
    repo.config("core.trustCtime", "false")
    repo.write("readme.txt", "A readme\nsecond line\n")  # same size
    repo.write("notes.txt", "ONE\ntwo\nthree\n")
    repo.add("notes.txt")
    repo.write("notes.txt", "TWO\ntwo\nthree\n")


@SCENARIOS.add()
def _racy_same_size_same_second(repo: Repo) -> None:
    """Staged and changed within the tick of the clock, to the same size: only the content tells."""
    for number in range(20):
        repo.write(f"racy{number}.txt", "staged\n")
    repo.git("add", "-A")
    for number in range(20):
        repo.write(f"racy{number}.txt", "change\n")


@SCENARIOS.add()
def _times_in_the_past_and_the_future(repo: Repo) -> None:
    repo.write("readme.txt", "old\n")
    os.utime(repo.at("readme.txt"), (0, 0))
    repo.write("notes.txt", "young\n")
    os.utime(repo.at("notes.txt"), (4_000_000_000, 4_000_000_000))
    repo.write("untracked-old.txt", "old\n")
    os.utime(repo.at("untracked-old.txt"), (1, 1))


@SCENARIOS.add()
def _read_only_files(repo: Repo) -> None:
    repo.write("readme.txt", "changed, then made read-only\n", 0o444)
    repo.write("untracked-read-only.txt", "untracked\n", 0o400)
    repo.write("read-only.sh", "#!/bin/sh\n", 0o555)
    repo.chmod("notes.txt", 0o444)
    repo.write("staged.txt", "staged\n", 0o444)
    repo.add("staged.txt")


@SCENARIOS.add()
def _private_and_group_writable_files(repo: Repo) -> None:
    repo.write("private.key", "private\n", 0o600)
    repo.write("shared.txt", "shared\n", 0o664)
    repo.write("private.sh", "#!/bin/sh\n", 0o700)
    repo.chmod("readme.txt", 0o600)


@SCENARIOS.add()
def _large_tracked_file_changed(repo: Repo) -> None:
    """The limit is for untracked files: a tracked one is always captured."""
    repo.config("agentos.maxFileSize", "1000")
    repo.write("large.bin", bytes(200_000))
    repo.commit("large")
    repo.write("large.bin", bytes(range(256)) * 1000)
    repo.write("staged-large.bin", b"s" * 100_000)
    repo.add("staged-large.bin")
    repo.append("staged-large.bin", b"t" * 100_000)


@SCENARIOS.add(keep=[b"large.bin", b"box/large.bin"])
def _large_untracked_file_over_the_limit(repo: Repo) -> None:
    """Not captured, and never deleted or overwritten."""
    repo.config("agentos.maxFileSize", "1000")
    repo.write("large.bin", bytes(2000))
    repo.write("box/large.bin", bytes(1001))
    repo.write("box/just-under.bin", bytes(1000))
    repo.append("readme.txt", "dirty\n")


@SCENARIOS.add()
def _no_limit(repo: Repo) -> None:
    repo.config("agentos.maxFileSize", "0")
    repo.write("large.bin", bytes(range(256)) * 8192)


@SCENARIOS.add()
def _hard_links(repo: Repo) -> None:
    repo.write("one.txt", "shared inode\n")
    os.link(repo.at("one.txt"), repo.at("two.txt"))
    os.link(repo.at("readme.txt"), repo.at("readme-again.txt"))
    repo.append("readme.txt", "both changed\n")


@SCENARIOS.cases()
def test_round_trip(scenario: Scenario, wreck: str, tool: Tool, tmp_path: Path) -> None:
    run_case(tmp_path, scenario, wreck, tool)


def test_a_hard_link_to_outside_is_not_written_through(repo: Repo) -> None:
    """Write beside, then rename: the other name of the inode keeps its bytes."""
    outside = repo.scratch / "outside.txt"
    outside.write_text("outside\n")
    repo.write("shared.txt", "then\n")
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.remove("shared.txt")
    os.link(outside, repo.at("shared.txt"))
    IN_PROCESS.restore(repo.path, taken["id"])
    assert repo.read("shared.txt") == b"then\n"
    assert outside.read_text() == "outside\n"


def test_restored_files_have_ordinary_modes(repo: Repo) -> None:
    """A file comes back as git would write it: 0644 or 0755 under the umask, never 0600 of a temporary file."""
    repo.write("plain.txt", "plain\n")
    repo.write("run-me.sh", "#!/bin/sh\n", 0o755)
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.remove("plain.txt", "run-me.sh", "readme.txt", "run.sh", "src")
    IN_PROCESS.restore(repo.path, taken["id"])
    modes = {
        name: os.stat(repo.at(name)).st_mode & 0o777 for name in ("plain.txt", "readme.txt", "run-me.sh", "run.sh")
    }
    assert modes == {"plain.txt": 0o644, "readme.txt": 0o644, "run-me.sh": 0o755, "run.sh": 0o755}
    assert os.stat(repo.at("src/lib")).st_mode & 0o777 == 0o755


def test_same_size_edits_after_a_restore_are_seen(repo: Repo) -> None:
    """The restored index must not make git, or us, take a later edit of the same size for the restored content."""
    repo.write("readme.txt", "one\n")
    repo.add("readme.txt")
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.write("readme.txt", "two\n")
    repo.add("readme.txt")
    IN_PROCESS.restore(repo.path, taken["id"])
    repo.write("readme.txt", "six\n")
    assert b"readme.txt" in repo.git("diff", "--name-only")
    before = complete_state(repo.path)
    second = IN_PROCESS.checkpoint(repo.path)
    IN_PROCESS.restore(repo.path, taken["id"])
    assert repo.read("readme.txt") == b"one\n"
    IN_PROCESS.restore(repo.path, second["id"])
    assert_same(before, complete_state(repo.path), "restore", branch="any")


def test_undo_leaves_permission_bits_that_git_does_not_see(repo: Repo) -> None:
    """Known to the restored state, where the file was untracked; to the one before it was unmodified."""
    repo.write("private.key", "private\n", 0o600)
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.commit("private")
    before = complete_state(repo.path)
    IN_PROCESS.restore(repo.path, taken["id"])
    IN_PROCESS.undo(repo.path)
    assert_same(before, complete_state(repo.path), "undo", permissions="all")


def test_a_file_that_had_changed_has_its_permission_bits_back(repo: Repo) -> None:
    """They were changed since, and in nothing that git sees."""
    repo.write("staged.txt", "staged\n")
    repo.add("staged.txt")
    repo.write("untracked.txt", "untracked\n")
    taken = IN_PROCESS.checkpoint(repo.path)
    original = complete_state(repo.path)
    repo.commit("both")
    repo.chmod("staged.txt", 0o600)
    repo.chmod("untracked.txt", 0o640)
    before = complete_state(repo.path)
    IN_PROCESS.restore(repo.path, taken["id"])
    assert_same(original, complete_state(repo.path), "restore", branch="any", permissions="all")
    IN_PROCESS.undo(repo.path)
    assert_same(before, complete_state(repo.path), "undo", permissions="all")


@pytest.mark.parametrize("check", ["default", "minimal"])
def test_an_edit_that_only_its_content_tells_stays_seen_when_the_index_is_written(repo: Repo, check: str) -> None:
    racily_changed(repo, "notes.txt", check)
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.write("readme.txt", "changed\n")
    run_ok(repo.path, "restore", taken["id"], "readme.txt")
    assert status(repo) == b"MM notes.txt\0"
    repo.remove("readme.txt")
    run_ok(repo.path, "restore", taken["id"])
    assert status(repo) == b"MM notes.txt\0"


def test_many_quick_same_size_edits_each_in_its_checkpoint(repo: Repo) -> None:
    """No cache may answer with the bytes of the edit before: tracked, untracked, racing the clock."""
    ids = []
    for number in range(12):
        repo.write("readme.txt", f"{number:04}\n")
        repo.write("untracked.txt", f"{number:04}\n")
        ids.append(IN_PROCESS.checkpoint(repo.path)["id"])
    for number, checkpoint in enumerate(ids):
        assert repo.git("cat-file", "-p", f"{checkpoint}:readme.txt") == b"%04d\n" % number
        assert repo.git("cat-file", "-p", f"{checkpoint}^3:untracked.txt") == b"%04d\n" % number


def test_an_edit_with_its_time_put_back_is_seen(repo: Repo) -> None:
    """Same size, same mtime: ctime gives it away, unless the user told git not to look."""
    repo.write("untracked.txt", "aaaa\n")
    past = time.time_ns() - 10**10
    os.utime(repo.at("untracked.txt"), ns=(past, past))
    IN_PROCESS.checkpoint(repo.path)
    repo.write("untracked.txt", "bbbb\n")
    os.utime(repo.at("untracked.txt"), ns=(past, past))
    taken = IN_PROCESS.checkpoint(repo.path)
    assert repo.git("cat-file", "-p", f"{taken['id']}^3:untracked.txt") == b"bbbb\n"


@pytest.mark.parametrize("tool", [IN_PROCESS, COMMAND], ids=["api", "command"])
def test_a_large_file_is_named_in_skipped(repo: Repo, tool: Tool) -> None:
    repo.config("agentos.maxFileSize", "1k")
    repo.write("large.bin", bytes(1025))
    repo.write("fits.bin", bytes(1024))
    taken = tool.checkpoint(repo.path)
    assert [skipped["path"] for skipped in taken["skipped"]] == ["large.bin"]
    assert taken["untracked_files"] == ["fits.bin"]


def test_a_large_file_made_since_is_not_deleted(repo: Repo) -> None:
    """hermes#95491. It is in no checkpoint, so it stays, and the restore says so."""
    repo.config("agentos.maxFileSize", "1000")
    before = complete_state(repo.path)
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.write("new/large.bin", bytes(5000))
    repo.write("new/small.bin", bytes(10))
    wrecked = complete_state(repo.path)
    done = IN_PROCESS.restore(repo.path, taken["id"])
    after = complete_state(repo.path)
    assert repo.read("new/large.bin") == bytes(5000)
    assert not repo.exists("new/small.bin")
    assert_same(before.without(b"new"), after.without(b"new"), "restore", branch="any", status=False)
    assert "new/large.bin" in [skipped["path"] for skipped in done["skipped"]]
    IN_PROCESS.undo(repo.path)
    assert_same(wrecked, complete_state(repo.path), "undo")


def test_a_large_file_in_the_way_is_not_overwritten(repo: Repo) -> None:
    repo.config("agentos.maxFileSize", "1000")
    repo.write("thing", "small then\n")
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.write("thing", bytes(5000))
    before = complete_state(repo.path, strict=True)
    done = run(repo.path, "restore", taken["id"])
    if done.code == 0:
        assert repo.read("thing") == bytes(5000)
    else:
        assert done.code == 1, str(done)
        assert b"thing" in done.err
        assert_unchanged(before, complete_state(repo.path, strict=True), "a refused restore changed something")


def test_a_file_that_changes_while_it_is_captured_is_never_torn(repo: Repo) -> None:
    """A writer rewrites a file in place, whole, over and over. A checkpoint holds one generation of it, or says it
    could not; a mixture of two is neither the one nor the other."""
    size = 4 * 1024 * 1024
    path = repo.at("busy.bin")
    repo.write("busy.bin", b"a" * size)
    stop = threading.Event()

    def write() -> None:
        with open(path, "r+b", buffering=0) as stream:
            for generation in range(10_000):
                if stop.is_set():
                    return
                stream.seek(0)
                block = bytes([ord("a") + generation % 26]) * (size // 8)
                for _ in range(8):
                    stream.write(block)
                    time.sleep(0.001)
                time.sleep(0.03)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(6):
            done = COMMAND.checkpoint(repo.path)
            if any(skipped["path"] == "busy.bin" for skipped in done["skipped"]):
                continue
            data = repo.git("cat-file", "-p", f"{done['id']}^3:busy.bin")
            assert len(data) == size
            assert len(set(data)) == 1, f"torn: {sorted(set(data))}"
    finally:
        stop.set()
        writer.join()
