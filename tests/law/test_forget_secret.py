"""Wherever a secret is, it is nowhere after `forget --secret`, and each other file of each checkpoint is as before."""

from __future__ import annotations

import random

import pytest

from tests.support.forgotten import holders, objects, timeline, unreachable
from tests.support.repo import Repo
from tests.support.tool import run, run_ok

SECRET = "Blue-Horse_77"
_NAMES = ("notes.txt", "untracked.txt", "deep/er/file.txt", "saved.env", "staged.txt", "crlf.txt")


def _change(repo: Repo, chance: random.Random) -> dict[str, bytes]:
    """Write some files; those without the secret, with what they have."""
    clean = {}
    for name in chance.sample(_NAMES, chance.randint(1, len(_NAMES))):
        text = f"{name} {chance.random()}"
        has = chance.random() < 0.4
        end = b"\r\n" if name == "crlf.txt" else b"\n"
        data = (f"{text} {SECRET} after" if has else text).encode() + end + b"second line\n"
        repo.write(name, data)
        if name == "staged.txt":
            repo.git("add", "-f", name)
            if chance.random() < 0.5:
                has = has or chance.random() < 0.5
                data = f"{text} not staged {SECRET if has else ''}".encode()
                repo.write(name, data)
        if not has:
            clean[name] = data
    return clean


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_it_is_nowhere(repo: Repo, seed: int) -> None:
    chance = random.Random(seed)
    repo.git("config", "agentos.includeIgnored", "*.env")
    repo.write(".gitignore", "*.env\n")
    repo.write("stashed.txt", "only in the stash\n")
    repo.git("stash", "push", "-q", "--include-untracked")
    repo.git("stash", "drop", "-q")
    theirs = unreachable(repo)
    repo.write(".gitignore", "*.env\n")
    kept: dict[str, dict[str, bytes]] = {}
    state: dict[str, bytes] = {}
    for number in range(6):
        state |= _change(repo, chance)
        state = {name: data for name, data in state.items() if (repo.path / name).read_bytes() == data}
        if chance.random() < 0.5:
            words = SECRET if chance.random() < 0.5 else "nothing"
            run_ok(repo.path, "log", "add", "decision", f"{words} {number}")
        text = f"{SECRET if chance.random() < 0.3 else 'plain'} {number}"
        kept[run_ok(repo.path, "checkpoint", "-m", text)["id"]] = dict(state)
        if chance.random() < 0.3:
            repo.git("repack", "-q", "-d")
    for name in _NAMES:
        (repo.path / name).unlink(missing_ok=True)
    repo.git("reset", "-q", "--hard")
    count = len(timeline(repo))
    done = run(repo.path, "forget", "--secret", "--json", stdin=SECRET.encode()).json
    assert done["unreachable"] == []
    assert holders(repo, SECRET.encode()) == []
    assert theirs <= objects(repo)
    assert len(timeline(repo)) == count
    repo.git("fsck", "--strict", "--no-dangling")
    for oid, files in kept.items():
        for name, data in files.items():
            assert run(repo.path, "checkpoint", "cat", f"{oid}:{name}").out == data, (oid, name)
    for oid, files in list(kept.items())[::2]:
        run_ok(repo.path, "restore", oid, "--no-branch")
        for name, data in files.items():
            assert repo.read(name) == data, (oid, name)
    run_ok(repo.path, "undo")
