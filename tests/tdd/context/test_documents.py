"""The design document and the context files together, and what a person is told about them before anything is sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from git_agentos.errors import ContextError
from git_agentos.tdd.context import source_files, tokens
from git_agentos.tdd.context.source_files import Documents, Text, policy_lines
from tests.support.repo import Repo
from tests.support.state import assert_unchanged, complete_state

LLD = "# Twice\n\nWrite `twice`.\n"


@pytest.fixture
def project(repo: Repo) -> Repo:
    repo.write("docs/lld.md", LLD)
    repo.write("src/a.py", "a = 1\n")
    repo.write("src/b.py", "b = 'caf\u00e9'\n")
    return repo


def load(project: Repo, lld: str, *paths: str) -> Documents:
    return source_files.load(str(project.path), lld, paths)


def test_files_come_in_the_order_named(project: Repo) -> None:
    found = load(project, "docs/lld.md", "src/b.py", "./src/a.py")
    assert found.lld == Text("docs/lld.md", LLD, len(LLD))
    assert found.context == (Text("src/b.py", "b = 'caf\u00e9'\n", 12), Text("src/a.py", "a = 1\n", 6))
    assert not found.exact
    assert 10 < found.tokens < 60
    assert load(project, "docs/lld.md").context == ()


def test_a_file_that_is_named_twice_is_taken_once(project: Repo) -> None:
    (project.path / "again.py").symlink_to("src/a.py")
    found = load(project, "docs/lld.md", "src/a.py", "docs/lld.md", "again.py", "src//a.py")
    assert [each.path for each in found.context] == ["src/a.py"]
    assert found.tokens == load(project, "docs/lld.md", "src/a.py").tokens


def test_line_ends_and_marks_are_kept(project: Repo) -> None:
    project.write("docs/dos.md", b"\xef\xbb\xbfa\r\nb\r\n")
    assert load(project, "docs/dos.md").lld.text == "\ufeffa\r\nb\r\n"


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("../x.md", None, "it has '..' in it"),
        ("x.md", None, "'x.md' does not exist"),
        (".env", b"A=1\n", "'.env' may hold secrets: its name matches '.env*'"),
        ("x.md", b"a\0b", "'x.md' is binary"),
        ("x.md", b"x" * 102_401, "'x.md' is too large"),
        (
            "x.md",
            ("one\nghp_" + "x" * 36).encode(),
            "'x.md' holds a secret: a token of a code host or package index in",
        ),
    ],
)
def test_refused_file_is_refused_as_document_and_as_context(
    name: str, data: bytes | None, why: str, project: Repo
) -> None:
    if data is not None:
        project.write(name, data)
    before = complete_state(project.path, strict=True)
    for given in ((name,), ("docs/lld.md", "src/a.py", name)):
        with pytest.raises(ContextError) as caught:
            load(project, *given)
        assert why in caught.value.message
    assert_unchanged(before, complete_state(project.path, strict=True), "a refusal")


@pytest.mark.parametrize("data", [b"", b" \n\t\n"])
def test_an_empty_design_document(data: bytes, project: Repo) -> None:
    project.write("docs/none.md", data)
    with pytest.raises(ContextError, match=r"the design document 'docs/none\.md' is empty"):
        load(project, "docs/none.md")
    assert load(project, "docs/lld.md", "docs/none.md").context[0].size == len(data)


def test_file_exceeding_the_limit_is_named(project: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "count", lambda text: 90_000)
    monkeypatch.setattr(tokens, "estimate", lambda text: 90_001)
    load(project, "docs/lld.md", "src/a.py")
    with pytest.raises(ContextError, match=r"with 'src/b\.py' it has 270,000 tokens, and at most 200,000 are allowed"):
        load(project, "docs/lld.md", "src/a.py", "src/b.py")


def test_counted_where_the_estimate_is_too_high(project: Repo) -> None:
    """Five files of 40,000 bytes in which every other byte may be a token."""
    for n in range(5):
        project.write(f"many/{n}.md", "\u4e2d\u6587 " * 14_000)
    names = [f"many/{n}.md" for n in range(5)]
    found = load(project, "docs/lld.md", *names)
    counts = [tokens.count(each.text) or 0 for each in (found.lld, *found.context)]
    assert (found.tokens, found.exact) == (sum(counts), True)
    assert found.tokens <= 200_000 < sum(tokens.estimate(each.text) for each in found.context)


def test_policy_lists_files_sizes_and_tokens() -> None:
    lld = Text("docs/lld.md", "x" * 1234, 1234)
    told = policy_lines(Documents(lld, (Text("a b.py", "x", 1),), 420, False), "Anthropic, over the network")
    assert list(told) == [
        "data policy: what is sent to Anthropic, over the network",
        "  1,234 bytes  docs/lld.md  (the design document)",
        "      1 bytes  a b.py",
        "  1,235 bytes in 2 files, at most 420 tokens",
        "with the issue's id; later also the tests and code that it wrote, and pytest's output, without known secrets",
    ]
    alone = policy_lines(Documents(lld, (), 400, True), "nobody")
    assert alone[2] == "  1,234 bytes in 1 file, 400 tokens"


def test_policy_line_names_the_file_that_is_sent(project: Repo, tmp_path: Path) -> None:
    (project.path / "innocent.md").symlink_to("src/a.py")
    found = load(project, "docs/lld.md", "innocent.md")
    assert found.context == (Text("src/a.py", "a = 1\n", 6),)
    assert "src/a.py" in policy_lines(found, "nobody")[2]
