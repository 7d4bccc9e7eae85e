"""The repositories and commands that are killed, and made to fail, step by step.

Each function makes the repository ready and gives the command line. It uses `run` for what has to be taken before.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.support.dirty import make_dirty
from tests.support.faults.server import Runner
from tests.support.operations import OPERATIONS
from tests.support.repo import Repo, filled
from tests.support.sessions import ClaudeSession

Prepare = Callable[[Runner, Repo], list[str]]
_OPERATIONS = {operation.name: operation for operation in OPERATIONS}


def take(runner: Runner, repo: Repo) -> str:
    """Take a checkpoint; its id."""
    return str(json.loads(runner.run_ok(repo.path, "--json", "checkpoint").out)["id"])


def _dirty(repo: Repo) -> None:
    """Dirty in every way, and what no stash holds: an empty folder."""
    make_dirty(repo)
    repo.write("new/untracked.txt", "untracked\n")
    repo.mkdir("new/empty")


def _wreck(repo: Repo) -> None:
    """Another branch, dirty in another way; every restore has to write, replace, remove and make folders."""
    repo.git("reset", "-q", "--hard")
    repo.git("clean", "-ffdxq")
    repo.git("checkout", "-q", "other")
    repo.append("readme.txt", "unstaged on other\n")
    repo.write("src/app.py", "staged on other\n")
    repo.add("src/app.py")
    repo.write("later/deep/untracked.txt", "untracked later\n")


def checkpoint(runner: Runner, repo: Repo) -> list[str]:
    _dirty(repo)
    return ["checkpoint", "-m", "killed"]


def checkpoint_again(runner: Runner, repo: Repo) -> list[str]:
    _dirty(repo)
    take(runner, repo)
    repo.append("new/untracked.txt", "more\n")
    repo.git("pack-refs", "--all")
    return ["checkpoint"]


def checkpoint_packed(runner: Runner, repo: Repo) -> list[str]:
    """So many new objects that they go to a pack."""
    for number in range(120):
        repo.write(f"many/{number}.txt", f"{number}\n")
    return ["checkpoint"]


def checkpoint_consolidating(runner: Runner, repo: Repo) -> list[str]:
    """So many loose objects are noted, with a small pack, that this checkpoint packs them together."""
    _dirty(repo)
    take(runner, repo)
    loose = [path for path in sorted((repo.path / ".git/objects").glob("??/*")) if len(path.parent.name) == 2]
    rows = "".join(f"{path.parent.name}{path.name}\n" for path in loose)
    repo.append(".git/agentos/loose-objects", rows * (1000 // len(loose) + 1))
    repo.append("new/untracked.txt", "more\n")
    return ["checkpoint", "-m", "killed"]


def checkpoint_merge_and_nested(runner: Runner, repo: Repo) -> list[str]:
    _OPERATIONS["merge-half-resolved"].start(repo)
    filled(repo.path / "nested").append("readme.txt", "dirty\n")
    return ["checkpoint"]


def restore(runner: Runner, repo: Repo) -> list[str]:
    _dirty(repo)
    taken = take(runner, repo)
    _wreck(repo)
    return ["restore", taken]


def restore_named_branch(runner: Runner, repo: Repo) -> list[str]:
    return [*restore(runner, repo), "--branch", "back/again"]


def restore_no_branch(runner: Runner, repo: Repo) -> list[str]:
    return [*restore(runner, repo), "--no-branch"]


def restore_keep_new(runner: Runner, repo: Repo) -> list[str]:
    return [*restore(runner, repo), "--keep-new"]


def restore_path(runner: Runner, repo: Repo) -> list[str]:
    return [*restore(runner, repo), "src", "new"]


def restore_hunks(runner: Runner, repo: Repo) -> list[str]:
    """Of a file some hunks, of others everything: one is written, one removed, one made with its folders."""
    lines = [f"{n}\n" for n in range(1, 41)]
    repo.write("numbers.txt", "".join(lines))
    taken = [*restore(runner, repo)][1]
    repo.write("numbers.txt", "".join(lines).replace("\n3\n", "\nthree\n").replace("\n30\n", "\nthirty\n"))
    chosen = ("numbers.txt:2", "new/untracked.txt:1", "later/deep/untracked.txt:1")
    return ["restore", taken, *(word for each in chosen for word in ("--hunks", each))]


def restore_detached(runner: Runner, repo: Repo) -> list[str]:
    repo.git("checkout", "-q", "--detach", "v1")
    return restore(runner, repo)


def restore_into_merge(runner: Runner, repo: Repo) -> list[str]:
    _OPERATIONS["merge-half-resolved"].start(repo)
    taken = take(runner, repo)
    repo.git("merge", "--abort")
    _wreck(repo)
    return ["restore", taken]


def restore_from_rebase_into_cherry_pick(runner: Runner, repo: Repo) -> list[str]:
    _OPERATIONS["cherry-pick-sequence"].start(repo)
    taken = take(runner, repo)
    repo.git("cherry-pick", "--abort")
    repo.git("checkout", "-q", "topic")
    assert repo.try_git("rebase", "main") != 0
    return ["restore", taken]


def restore_out_of_bisect(runner: Runner, repo: Repo) -> list[str]:
    taken = take(runner, repo)
    _OPERATIONS["bisect"].start(repo)
    return ["restore", taken]


def undo_into_bisect(runner: Runner, repo: Repo) -> list[str]:
    words = restore_out_of_bisect(runner, repo)
    runner.run_ok(repo.path, *words)
    return ["undo"]


def restore_sparse(runner: Runner, repo: Repo) -> list[str]:
    repo.git("sparse-checkout", "set", "--cone", "docs")
    repo.append("docs/guide.md", "dirty\n")
    taken = take(runner, repo)
    repo.git("checkout", "-q", "--", ".")
    repo.git("sparse-checkout", "disable")
    repo.append("src/app.py", "later\n")
    return ["restore", taken]


def restore_nested(runner: Runner, repo: Repo) -> list[str]:
    """One nested repository has moved on, one is new."""
    inner = filled(repo.path / "nested")
    inner.append("readme.txt", "then\n")
    taken = take(runner, repo)
    inner.write("notes.txt", "committed later\n")
    inner.commit("later")
    inner.append("notes.txt", "dirty later\n")
    filled(repo.path / "new-nested").append("readme.txt", "never saved before\n")
    repo.append("readme.txt", "later\n")
    return ["restore", taken]


def restore_nested_gone(runner: Runner, repo: Repo) -> list[str]:
    inner = filled(repo.path / "nested")
    inner.append("readme.txt", "then\n")
    inner.write("untracked.txt", "untracked\n")
    taken = take(runner, repo)
    repo.remove("nested")
    repo.append("readme.txt", "later\n")
    return ["restore", taken]


def restore_swapped_types(runner: Runner, repo: Repo) -> list[str]:
    """Files where folders were, folders where files were, links where either was."""
    repo.write("box/inner.txt", "untracked in a folder\n")
    taken = take(runner, repo)
    repo.remove("src", "readme.txt", "docs", "link", "box")
    repo.write("src", "a file\n")
    repo.write("readme.txt/deep/inner.txt", "in a folder\n")
    repo.link("docs", "src")
    repo.mkdir("link")
    repo.write("box", "a file\n")
    repo.git("add", "src", "docs")
    return ["restore", taken]


def restore_over_ignored(runner: Runner, repo: Repo, rules: str = ".gitignore") -> list[str]:
    """Ignored files stand where the checkpoint has files and folders."""
    repo.write("local.cfg", "untracked then\n")
    repo.write("build/out.txt", "untracked then\n")
    taken = take(runner, repo)
    repo.remove("local.cfg", "build")
    repo.write(rules, "local.cfg\nbuild\n")
    repo.write("local.cfg", "precious and ignored\n")
    repo.write("build", "an ignored file in the way of a folder\n")
    return ["restore", taken]


def restore_over_locally_ignored(runner: Runner, repo: Repo) -> list[str]:
    return restore_over_ignored(runner, repo, ".git/info/exclude")


def restore_onto_unborn(runner: Runner, repo: Repo) -> list[str]:
    _dirty(repo)
    taken = take(runner, repo)
    repo.git("checkout", "-q", "--orphan", "fresh")
    repo.git("rm", "-q", "-r", "-f", "--cached", ".")
    repo.remove("src")
    return ["restore", taken]


def revert(runner: Runner, repo: Repo) -> list[str]:
    """A turn that has written, staged and removed files, and later edits of the same and of other files."""
    session = ClaudeSession(repo)
    repo.write("src/app.py", "".join(f"line {n}\n" for n in range(20)))
    session.prompt("go")
    repo.append("src/app.py", "of the turn\n")
    repo.write("made/by/turn.txt", "made\n")
    repo.write("staged.txt", "staged\n")
    repo.add("staged.txt")
    repo.remove("readme.txt")
    session.stop()
    repo.write("src/app.py", "later\n" + repo.read("src/app.py").decode())
    repo.write("own.txt", "later\n")
    return ["revert", json.loads(runner.run_ok(repo.path, "--json", "turns").out)["turns"][0]["id"]]


def undo(runner: Runner, repo: Repo) -> list[str]:
    words = restore(runner, repo)
    runner.run_ok(repo.path, *words)
    repo.append("notes.txt", "after the restore\n")
    return ["undo"]


def undo_undo(runner: Runner, repo: Repo) -> list[str]:
    undo(runner, repo)
    runner.run_ok(repo.path, "undo")
    return ["undo"]


CHECKPOINTS: dict[str, Prepare] = {
    "first": checkpoint,
    "again": checkpoint_again,
    "packed": checkpoint_packed,
    "consolidating": checkpoint_consolidating,
    "merge-and-nested": checkpoint_merge_and_nested,
}

CHANGES: dict[str, Prepare] = {
    "restore": restore,
    "restore-named-branch": restore_named_branch,
    "restore-no-branch": restore_no_branch,
    "restore-keep-new": restore_keep_new,
    "restore-path": restore_path,
    "restore-detached": restore_detached,
    "restore-hunks": restore_hunks,
    "restore-into-merge": restore_into_merge,
    "restore-from-rebase-into-cherry-pick": restore_from_rebase_into_cherry_pick,
    "restore-out-of-bisect": restore_out_of_bisect,
    "restore-sparse": restore_sparse,
    "restore-nested": restore_nested,
    "restore-nested-gone": restore_nested_gone,
    "restore-swapped-types": restore_swapped_types,
    "restore-over-ignored": restore_over_ignored,
    "restore-over-locally-ignored": restore_over_locally_ignored,
    "restore-onto-unborn": restore_onto_unborn,
    "revert": revert,
    "undo": undo,
    "undo-undo": undo_undo,
    "undo-into-bisect": undo_into_bisect,
}

every_checkpoint = pytest.mark.parametrize("case", CHECKPOINTS.values(), ids=CHECKPOINTS.keys(), indirect=True)
every_change = pytest.mark.parametrize("case", CHANGES.values(), ids=CHANGES.keys(), indirect=True)
