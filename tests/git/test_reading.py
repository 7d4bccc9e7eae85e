"""What is read of a repository as git reads it: refs, times, refusals, and what git says of itself."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

import pygit2
import pytest

from git_agentos import open_workspace
from git_agentos.errors import UnsupportedRepository, UsageError
from git_agentos.git import dates, index_entries, refs
from git_agentos.git.location import locate
from git_agentos.git.refs import files
from tests.support import ref_storage
from tests.support.git_version import before_git
from tests.support.refusal import assert_refused
from tests.support.repo import Repo
from tests.support.tool import IN_PROCESS


@pytest.mark.parametrize("pack", ["before", "after"])
def test_pack_refs_beside_us_hides_no_ref(repo: Repo, monkeypatch: pytest.MonkeyPatch, pack: str) -> None:
    """git packs right before, and right after, the file of packed refs is read."""
    for number in range(4):
        repo.git("branch", f"topic/{number}")
        repo.git("tag", f"t{number}")
    location = locate(str(repo.path))
    expected = dict(
        line.split(" ") for line in repo.text("for-each-ref", "--format=%(refname) %(objectname)").split("\n")
    )
    real = files._packed

    def packed(where: object) -> dict[str, str]:
        if pack == "before":
            repo.git("pack-refs", "--all")
        found = real(location)
        repo.git("pack-refs", "--all")
        return found

    monkeypatch.setattr(files, "_packed", packed)
    assert refs.list_refs(location, "refs/") == expected


@pytest.mark.parametrize("text", ["nowhere", "knowing", "soon", "", "all", "9" * 20, "2026-13-45", "\u0663 days"])
def test_invalid_times(repo: Repo, text: str) -> None:
    with pytest.raises(UsageError):
        dates.parse(locate(str(repo.path)), text)


@pytest.mark.parametrize(
    ("text", "ago"),
    [("now", 0), ("0 seconds ago", 0), ("1 second ago", 1), ("2 hours ago", 7200), ("yesterday", 86400)],
)
def test_times_as_git_reads_them(repo: Repo, text: str, ago: int) -> None:
    found = dates.parse(locate(str(repo.path)), text)
    assert abs(datetime.now(UTC) - timedelta(seconds=ago) - found) < timedelta(seconds=30)


def test_an_owners_name_is_no_ref_format(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """The path of a repository that git refuses is part of what git says."""
    place = repo.path.parent / "refstorage-x's objectformat"
    os.rename(repo.path, place)
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "true")
    assert_refused(place, "checkpoint", mentions="another user owns it")
    assert_refused(place, "checkpoint", mentions=str(place))


@before_git(2, 45)
def test_extensions_that_libgit2_cannot_serve(repo: Repo) -> None:
    repo.config("core.repositoryFormatVersion", "1")
    repo.config("extensions.refStorage", "reftable")
    with pytest.raises(UnsupportedRepository, match="reftable"):
        open_workspace(repo.path)


@pytest.mark.parametrize(
    ("value", "begun"), [(None, True), ("true", True), ("always", True), ("false", False), ("no", False), ("0", False)]
)
def test_a_reflog_is_begun_where_git_would(empty_repo: Repo, value: str | None, begun: bool) -> None:
    repo = empty_repo
    repo.config("core.logAllRefUpdates", "false")
    repo.write("file", "1")
    repo.commit("first")
    taken = IN_PROCESS.checkpoint(repo.path)
    if value is None:
        repo.git("config", "--unset", "core.logAllRefUpdates")
    else:
        repo.config("core.logAllRefUpdates", value)
    assert not ref_storage.has_log(repo, "HEAD")
    done = IN_PROCESS.restore(repo.path, taken["id"])
    made = f"refs/heads/{done['branch']}"
    assert [ref_storage.has_log(repo, each) for each in (made, "HEAD")] == [begun, begun]
    ours = repo.text("for-each-ref", "--format=%(refname)", "refs/agentos").split()
    assert ours and not any(ref_storage.has_log(repo, each) for each in ours)


def test_a_reflog_that_is_there_goes_on(repo: Repo) -> None:
    taken = IN_PROCESS.checkpoint(repo.path)
    repo.config("core.logAllRefUpdates", "false")
    before = len(ref_storage.log_lines(repo))
    IN_PROCESS.restore(repo.path, taken["id"])
    assert len(ref_storage.log_lines(repo)) > before


def test_libgit2_is_left_as_the_process_has_it(repo: Repo) -> None:
    """Who uses our package may use pygit2 too, with its check of the owner."""
    pygit2.settings.owner_validation = True
    open_workspace(repo.path).checkpoint("c")
    assert pygit2.settings.owner_validation is True


def test_only_a_mode_may_be_that_of_a_submodule(repo: Repo) -> None:
    """A size of 57,344 bytes has the same bytes, and so may the number of an inode: the index need not be read."""
    repo.write("large", "x" * 0o160000)
    repo.git("add", "large")
    git_dir = str(repo.git_dir)
    assert not index_entries.may_have_gitlinks(git_dir)
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{repo.git('rev-parse', 'HEAD').decode().strip()},sub")
    assert index_entries.may_have_gitlinks(git_dir)
