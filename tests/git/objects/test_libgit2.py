"""libgit2 without most of pygit2: what is read is the same, and whoever wants all of pygit2 gets it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ref_storage
from tests.support.repo import Repo, fill

READ = """
import json, sys
from git_agentos.git.location import locate
from git_agentos.git.objects.libgit2_store import Libgit2Store
{before}
found = Libgit2Store(locate(".").git_dir, locate(".").git_dir + "/objects")
head = sys.argv[1]
first = [found.header(head)[0], found.read(head)[1].decode(), found.lookup(head[:10]), found.is_ancestor(head, head),
         found.merge_base(head, sys.argv[2]), found.exists("1" * 40), found.lookup("1234"), found.header("1" * 40)]
alone = "pygit2" not in sys.modules
import pygit2
whole = pygit2.Repository(".")
second = [str(whole.head.target), whole[head].type == pygit2.enums.ObjectType.COMMIT, whole.status(),
          [remote.name for remote in whole.remotes], isinstance(whole, pygit2.Repository), found.header(head)[0]]
print(json.dumps([alone, first, second]))
"""


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:
    """A SHA-1 repository with refs in files: libgit2 opens no other."""
    ref_storage.use_oldest(monkeypatch)
    return fill(Repo.init(tmp_path / "repo", "-b", "main"))


def read(repo: Repo, before: str) -> list[object]:
    words = [sys.executable, "-c", READ.replace("{before}", before), repo.oid(), repo.oid("main~1")]
    done = subprocess.run(words, cwd=repo.path, capture_output=True, check=True)
    found: list[object] = json.loads(done.stdout)
    return found


def test_parts_of_pygit2_do_and_all_of_it_can_follow(repo: Repo) -> None:
    alone, *found = read(repo, "")
    whole, *same = read(repo, "import pygit2")
    assert (alone, whole) == (True, False)
    assert found == same
    head = repo.oid()
    first, second = found
    assert first == [
        "commit", repo.git("cat-file", "commit", head).decode(), ["commit", head], True, repo.oid("main~1"),
        False, None, None,
    ]  # fmt: skip
    assert second == [head, True, {}, [], True, "commit"]


def test_another_thread_may_import_pygit2(repo: Repo) -> None:
    wait = "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()"
    _, *found = read(repo, "")
    late = wait + "\nfor name in [n for n in sys.modules if n.startswith('git_agentos.git')]: del sys.modules[name]"
    late += (
        "\nfrom git_agentos.git.location import locate\nfrom git_agentos.git.objects.libgit2_store import Libgit2Store"
    )
    alone, *again = read(repo, late)
    assert alone is False
    assert again == found
