"""Operations in progress, and how each goes on.

Each function brings a repository to the stop; `CONTINUE` names what resolves and finishes it. Dates are fixed by the
sealed environment, so finishing twice from the same state makes the same commits, to the bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.support.repo import Repo, git_run

EDITOR_OFF = {"GIT_EDITOR": "true", "GIT_SEQUENCE_EDITOR": "true"}


@dataclass(frozen=True)
class Operation:
    """`start` stops in the middle; `finish` resolves what is open and goes on to the end."""

    name: str
    start: Callable[[Repo], None]
    finish: Callable[[Repo], None]
    reported: str  # what `checkpoint --json` names in `operation`


def go_on(repo: Repo, *args: str) -> None:
    """Run a git command that continues, without an editor."""
    repo.git(*args, env=EDITOR_OFF)


def diverge(repo: Repo) -> None:
    """`topic`: three commits off `main~1` that touch the same lines as `main`; HEAD stays on main."""
    repo.git("checkout", "-q", "-b", "topic", "main~1")
    repo.write("src/lib/util.py", "topic first line\n" + "".join(f"line {n}\n" for n in range(1, 30)))
    repo.write("topic.txt", "topic\n")
    repo.commit("topic one")
    repo.write("topic-two.txt", "two\n")
    repo.commit("topic two")
    repo.write("src/lib/util.py", "topic first line\n" + "".join(f"line {n}\n" for n in range(1, 29)) + "topic last\n")
    repo.commit("topic three")
    repo.git("checkout", "-q", "main")
    repo.write("src/lib/util.py", "main first line\n" + "".join(f"line {n}\n" for n in range(1, 30)))
    repo.commit("main changes the first line")
    repo.write("src/lib/util.py", "main first line\n" + "".join(f"line {n}\n" for n in range(1, 29)) + "main last\n")
    repo.commit("main changes the last line")


def expect_stop(repo: Repo, *args: str) -> None:
    """Run a git command that must stop with a conflict."""
    stopped = git_run(repo.path, *args)
    assert stopped.returncode != 0, f"git {args} did not stop"


def resolve(repo: Repo, data: str = "resolved\n") -> None:
    repo.write("src/lib/util.py", data)
    repo.add("src/lib/util.py")


def _merge(repo: Repo) -> None:
    diverge(repo)
    expect_stop(repo, "merge", "topic")


def _finish_merge(repo: Repo) -> None:
    resolve(repo)
    go_on(repo, "merge", "--continue")


def _merge_half_resolved(repo: Repo) -> None:
    repo.git("checkout", "-q", "-b", "side", "main~1")
    repo.write("notes.txt", "side\n")
    repo.write("docs/guide.md", "# side\n")
    repo.write("both.txt", "added by side\n")
    repo.remove("src/app.py")
    repo.commit("side")
    repo.git("checkout", "-q", "main")
    repo.write("notes.txt", "main\n")
    repo.write("docs/guide.md", "# main\n")
    repo.write("both.txt", "added by main\n", 0o755)
    repo.write("src/app.py", "changed by main\n")
    repo.commit("main")
    expect_stop(repo, "merge", "--no-ff", "-m", "a message of its own", "side")
    repo.write("notes.txt", "both\n")
    repo.add("notes.txt")
    repo.write("docs/guide.md", "half way through the markers\n")
    repo.write("scratch.txt", "untracked during the merge\n")


def _finish_half_resolved(repo: Repo) -> None:
    repo.write("docs/guide.md", "# both\n")
    repo.write("both.txt", "both\n")
    repo.git("add", "docs/guide.md", "both.txt")
    repo.git("rm", "-q", "src/app.py")
    go_on(repo, "merge", "--continue")


def _merge_without_conflict(repo: Repo) -> None:
    repo.git("merge", "-q", "--no-commit", "--no-ff", "other")
    repo.append("notes.txt", "an edit before the merge is committed\n")


def _merge_rename_conflict(repo: Repo) -> None:
    repo.git("checkout", "-q", "-b", "side")
    repo.git("mv", "src/lib/util.py", "src/lib/side.py")
    repo.commit("side renames")
    repo.git("checkout", "-q", "main")
    repo.git("mv", "src/lib/util.py", "src/lib/main.py")
    repo.commit("main renames")
    expect_stop(repo, "merge", "side")


def _finish_rename_conflict(repo: Repo) -> None:
    repo.git("rm", "-q", "--cached", "src/lib/util.py")
    repo.git("add", "-A")
    go_on(repo, "merge", "--continue")


def _merge_file_against_directory(repo: Repo) -> None:
    repo.git("checkout", "-q", "-b", "side")
    repo.write("thing/inside.txt", "a folder on side\n")
    repo.commit("side")
    repo.git("checkout", "-q", "main")
    repo.write("thing", "a file on main\n")
    repo.commit("main")
    expect_stop(repo, "merge", "side")


def _finish_file_against_directory(repo: Repo) -> None:
    repo.git("add", "-A")
    repo.try_git("rm", "-q", "--cached", "thing")
    go_on(repo, "merge", "--continue")


def _merge_squash(repo: Repo) -> None:
    repo.git("merge", "-q", "--squash", "other")


def _rebase(repo: Repo) -> None:
    diverge(repo)
    repo.git("checkout", "-q", "topic")
    expect_stop(repo, "rebase", "main")


def _finish_rebase(repo: Repo) -> None:
    resolve(repo)
    if git_run(repo.path, "rebase", "--continue", env=EDITOR_OFF).returncode != 0:
        resolve(repo, "resolved again\n")
        go_on(repo, "rebase", "--continue")


def _rebase_apply_backend(repo: Repo) -> None:
    diverge(repo)
    repo.git("checkout", "-q", "topic")
    expect_stop(repo, "rebase", "--apply", "main")


def _rebase_edit_stop(repo: Repo) -> None:
    diverge(repo)
    repo.git("checkout", "-q", "topic")
    editor = {"GIT_SEQUENCE_EDITOR": "sed -i -e '1s/^pick/edit/' -e '2s/^pick/reword/'", "GIT_EDITOR": "true"}
    repo.git("rebase", "-i", "main~2", env=editor)
    repo.append("topic.txt", "amended in the middle\n")
    repo.add("topic.txt")
    repo.append("topic.txt", "and not yet staged\n")


def _finish_edit_stop(repo: Repo) -> None:
    repo.git("add", "-A")
    go_on(repo, "rebase", "--continue")


def _rebase_with_autostash(repo: Repo) -> None:
    diverge(repo)
    repo.git("checkout", "-q", "topic")
    repo.append("topic-two.txt", "in the autostash\n")
    expect_stop(repo, "rebase", "--autostash", "main")


def _cherry_pick(repo: Repo) -> None:
    diverge(repo)
    expect_stop(repo, "cherry-pick", "topic~2")


def _finish_cherry_pick(repo: Repo) -> None:
    resolve(repo)
    go_on(repo, "cherry-pick", "--continue")


def _cherry_pick_sequence(repo: Repo) -> None:
    diverge(repo)
    expect_stop(repo, "cherry-pick", "-x", "main~2..topic~1", "v1")


def _finish_sequence(repo: Repo) -> None:
    resolve(repo)
    if git_run(repo.path, "cherry-pick", "--continue", env=EDITOR_OFF).returncode != 0:
        go_on(repo, "cherry-pick", "--quit")


def _revert(repo: Repo) -> None:
    diverge(repo)
    repo.write("src/lib/util.py", "later\n")
    repo.commit("later")
    expect_stop(repo, "revert", "--no-edit", "main~1")


def _revert_sequence(repo: Repo) -> None:
    diverge(repo)
    repo.write("src/lib/util.py", "later\n")
    repo.commit("later")
    expect_stop(repo, "revert", "--no-edit", "main~1", "main~2")


def _finish_revert(repo: Repo) -> None:
    for attempt in range(3):
        resolve(repo, f"resolved {attempt}\n")
        if git_run(repo.path, "revert", "--continue", env=EDITOR_OFF).returncode == 0:
            return
    raise AssertionError("the revert did not end")


def _am(repo: Repo, *options: str) -> None:
    diverge(repo)
    patches = repo.git("format-patch", "--stdout", "main~2..topic")
    mail = repo.scratch / "patches.mbox"
    mail.write_bytes(patches)
    expect_stop(repo, "am", *options, str(mail))


def _am_plain(repo: Repo) -> None:
    _am(repo)


def _am_three_way(repo: Repo) -> None:
    _am(repo, "-3")


def _finish_am(repo: Repo) -> None:
    for attempt in range(4):
        resolve(repo, f"resolved {attempt}\n")
        if git_run(repo.path, "am", "--continue", env=EDITOR_OFF).returncode == 0:
            return
    raise AssertionError("am did not end")


def _bisect(repo: Repo) -> None:
    for number in range(8):
        repo.write("counter.txt", f"{number}\n")
        repo.commit(f"count {number}")
    repo.git("bisect", "start", "HEAD", "HEAD~7")
    repo.append("readme.txt", "dirty during the bisect\n")


def _finish_bisect(repo: Repo) -> None:
    """Bad from 4 on; ends with the first bad commit in refs/bisect/bad and the log."""
    for _ in range(8):
        number = int(repo.read("counter.txt"))
        out = repo.text("bisect", "bad" if number >= 4 else "good")
        if "is the first bad commit" in out:
            return
    raise AssertionError("the bisect did not end")


OPERATIONS = [
    Operation("merge", _merge, _finish_merge, "merge"),
    Operation("merge-half-resolved", _merge_half_resolved, _finish_half_resolved, "merge"),
    Operation("merge-without-conflict", _merge_without_conflict, lambda repo: go_on(repo, "commit", "-q"), "merge"),
    Operation("merge-rename-conflict", _merge_rename_conflict, _finish_rename_conflict, "merge"),
    Operation("merge-file-against-directory", _merge_file_against_directory, _finish_file_against_directory, "merge"),
    Operation("rebase", _rebase, _finish_rebase, "rebase"),
    Operation("rebase-apply-backend", _rebase_apply_backend, _finish_rebase, "rebase"),
    Operation("rebase-edit-stop", _rebase_edit_stop, _finish_edit_stop, "rebase"),
    Operation("rebase-with-autostash", _rebase_with_autostash, _finish_rebase, "rebase"),
    Operation("cherry-pick", _cherry_pick, _finish_cherry_pick, "cherry-pick"),
    Operation("cherry-pick-sequence", _cherry_pick_sequence, _finish_sequence, "cherry-pick"),
    Operation("revert", _revert, _finish_revert, "revert"),
    Operation("revert-sequence", _revert_sequence, _finish_revert, "revert"),
    Operation("am", _am_plain, _finish_am, "am"),
    Operation("am-three-way", _am_three_way, _finish_am, "am"),
    Operation("bisect", _bisect, _finish_bisect, "bisect"),
]
