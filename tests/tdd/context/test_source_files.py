"""Which files may be read for a model: every rule, and that what is swapped or huge is refused rather than read."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from git_agentos.errors import ContextError
from git_agentos.secrets import file_names
from git_agentos.tdd import validate_context_limits, validate_context_path
from git_agentos.tdd.context import source_files, tokens

LARGEST = 102_400


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "it's a project"
    (root / "src/deep").mkdir(parents=True)
    (root / "a.md").write_text("a\n")
    (root / "src/deep/b.py").write_text("b = 1\n")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/o.md").write_text("outside\n")
    return root


def refused(path: str, root: Path) -> str:
    with pytest.raises(ValueError) as caught:
        validate_context_path(path, root)  # type: ignore[arg-type,unused-ignore]
    assert isinstance(caught.value, ContextError)
    assert (caught.value.exit_code, caught.value.kind) == (1, "context")
    with pytest.raises(ContextError) as read:
        source_files.read(str(root), path)
    assert read.value.message == caught.value.message
    return caught.value.message


@pytest.mark.parametrize("path", ["a.md", "./a.md", "src/deep/b.py", "src//deep/./b.py"])
def test_a_file_of_the_project(path: str, project: Path) -> None:
    found = validate_context_path(path, project)
    assert found == (project / path).resolve()
    assert found.is_absolute()
    assert source_files.read(str(project), path).text == found.read_text()


def test_the_root_may_be_a_link_and_a_text(project: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(project)
    assert validate_context_path("a.md", str(tmp_path / "link")) == project.resolve() / "a.md"


def test_links_may_lead_about_in_the_project(project: Path) -> None:
    (project / "docs").symlink_to("src/deep")
    (project / "docs/to-a").symlink_to("../../a.md")
    assert validate_context_path("docs/b.py", project) == project.resolve() / "src/deep/b.py"
    assert source_files.read(str(project), "docs/to-a") == source_files.Text("a.md", "a\n", 2)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("", "is empty"),
        ("../outside/o.md", "it has '..' in it"),
        ("src/../a.md", "it has '..' in it"),
        ("src/..", "it has '..' in it"),
        ("/etc/passwd", "it is an absolute path"),
        ("a\0.md", "it has a NUL byte"),
        ("nowhere.md", "does not exist"),
        ("a.md/b", "cannot be read: not a directory"),
        ("x" * 300, "cannot be read: file name too long"),
        ("src", "is a folder"),
        (".", "is a folder"),
        ("out/o.md", "a link leads out of it"),
        ("far.md", "a link leads out of it"),
        ("away.md", "a link leads out of it"),
        ("loop", "cannot be read: too many levels of symbolic links"),
        ("dangling", "does not exist"),
        ("null", "a link leads out of it"),
        ("pipe", "is no regular file"),
        ("socket", "is no regular file"),
        (".git/config", "lies in '.git'"),
        ("src/.GIT/config", "lies in '.GIT'"),
        (".agentos/runs/x", "lies in '.agentos'"),
        ("innocent.md", "its name matches '.env*'"),
        ("notes/a.md", "lies in '.git'"),
    ],
)
def test_every_rule_for_a_path(path: str, why: str, project: Path, tmp_path: Path, monkeypatch: Any) -> None:
    (project / "out").symlink_to(tmp_path / "outside")
    (project / "far.md").symlink_to(tmp_path / "outside/o.md")
    (project / "away.md").symlink_to("src/../../outside/o.md")
    (project / "loop").symlink_to("loop")
    (project / "dangling").symlink_to("nothing")
    (project / "null").symlink_to("/dev/null")
    (project / ".env.local").write_text("A=1\n")
    (project / "innocent.md").symlink_to(".env.local")
    (project / ".git").mkdir()
    (project / ".git/a.md").write_text("a\n")
    (project / "notes").symlink_to(".git")
    os.mkfifo(project / "pipe")
    monkeypatch.chdir(project)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        message = refused(path, project)
    assert why in message
    assert f"'{path}'" in message or not path


def test_invalid_root(project: Path) -> None:
    assert "is not there" in refused("a.md", project / "nowhere")
    assert "is no folder" in refused("a.md", project / "a.md")


SECRET = (
    ".env .env.local .ENV .envrc prod.env .env/a server.pem SERVER.PEM tls.key tls.key/a my_secret.txt Secrets.yml"
    " secrets/a.md id_rsa id_rsa.pub .ssh/config keys/id_ed25519 id_ecdsa_sk .netrc .pypirc .npmrc credentials"
    " credentials.json .aws/config a.p12 a.pfx a.jks a.kdbx kubeconfig kubeconfig.yaml dev.kubeconfig .kube/config"
    " .git-credentials .pgpass .htpasswd prod.tfvars terraform.tfstate.backup .docker/config.json .bash_history a.gpg"
    " service-account-1.json .ENV.\u017fecret x/aws_credentials"
).split()
HARMLESS = (
    "monkey.py environment.py keyboard.md key.py keys/a.md tokens.py password_reset.py turkey pem.py a.pem.md envs/a.py"
    " credential_store.py rsa.py docs/ssh.md history.md configure docker/config.json gpg.md certs/readme.txt"
).split()


@pytest.mark.parametrize("path", SECRET)
def test_names_of_secrets_are_refused(path: str, project: Path) -> None:
    (project / path).parent.mkdir(parents=True, exist_ok=True)
    (project / path).write_text("a\n")
    assert "may hold secrets: its name matches" in refused(path, project)


@pytest.mark.parametrize("path", HARMLESS)
def test_text_that_only_looks_like_a_secret_is_accepted(path: str, project: Path) -> None:
    (project / path).parent.mkdir(parents=True, exist_ok=True)
    (project / path).write_text("a\n")
    assert validate_context_path(path, project).read_text() == "a\n"


@given(st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=30), st.sampled_from(["", "d/", "d/e/"]))
def test_secret_name_is_found_in_any_path(name: str, folder: str) -> None:
    assert file_names.pattern_of(f"{folder}{name}secret{name}/x") is not None
    assert file_names.pattern_of(f"{folder}{name}.pem") is not None
    assert source_files.private_folder(f"{folder}.git/{name}") == ".git"


@pytest.fixture(scope="module")
def linked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with symbolic links within it and out of it."""
    place = tmp_path_factory.mktemp("linked")
    root = place / "root"
    (root / "d").mkdir(parents=True)
    (root / "f").write_text("inside\n")
    (root / "d/f").write_text("inside\n")
    (root / "l").symlink_to("d")
    (root / "d/l").symlink_to("..")
    (root / "out").symlink_to("..")
    (root / "d/out").symlink_to("../../f")
    (place / "f").write_text("outside\n")
    return root


@given(st.lists(st.sampled_from(["..", ".", "d", "l", "out", "f", "", "/"]), max_size=5))
def test_no_path_leads_out(linked: Path, parts: list[str]) -> None:
    """Whatever is asked for: refused, or a file below the root."""
    path = "/".join(parts)
    try:
        found = validate_context_path(path, linked)
    except ContextError:
        return
    assert found.is_relative_to(linked)
    assert found.read_text() == "inside\n"


# -- sizes and kinds of contents ---------------------------------------------------------------------------------------


def test_a_file_may_have_so_many_bytes(project: Path) -> None:
    (project / "full.md").write_bytes(b"x" * LARGEST)
    (project / "over.md").write_bytes(b"x" * (LARGEST + 1))
    validate_context_limits([project / "full.md"])
    assert source_files.read(str(project), "full.md").size == LARGEST
    for check in (
        lambda: validate_context_limits([project / "over.md"]),
        lambda: source_files.read(str(project), "over.md"),
    ):
        with pytest.raises(ValueError, match=r"over\.md' is too large: it has 102,401 bytes, and at most 102,400 are"):
            check()


def test_a_huge_file_is_not_read(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open(project / "huge", "wb") as file:
        file.truncate(1 << 40)
    read: list[int] = []
    monkeypatch.setattr(os, "read", lambda *_: read.append(1))
    with pytest.raises(ContextError, match="it has 1,099,511,627,776 bytes"):
        source_files.read(str(project), "huge")
    assert not read


def test_a_file_that_grows_is_read_no_further_than_needed(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def read(_: int, wanted: int) -> bytes:
        asked.append(wanted)
        return b"x" * min(wanted, 65_536)

    monkeypatch.setattr(os, "read", read)
    with pytest.raises(ContextError, match="is too large: it has more bytes, and at most 102,400 are allowed"):
        source_files.read(str(project), "a.md")
    assert asked == [LARGEST + 1, LARGEST + 1 - 65_536]


def test_limit_of_tokens_over_many_files(project: Path) -> None:
    files = [project / f"{n}.md" for n in range(5)]
    for each in files:
        each.write_text("a\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokens, "estimate", lambda text: 50_000)
        validate_context_limits(files[:4])
        patch.setattr(tokens, "count", lambda text: 40_000)
        validate_context_limits(files)
        patch.setattr(tokens, "count", lambda text: 40_001)
        with pytest.raises(ValueError, match=r"with '.*/4\.md' it has 200,005 tokens, and at most 200,000 are allowed"):
            validate_context_limits(files)
        patch.setattr(tokens, "count", lambda text: None)
        with pytest.raises(ValueError, match=r"with '.*/4\.md' it may have \(an upper estimate\) 250,000") as caught:
            validate_context_limits(files)
    assert isinstance(caught.value, ContextError)
    assert "git-agentos[tokens]" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"text\0text", "it has a NUL byte"),
        ("text".encode("utf-16"), "it has a NUL byte"),
        ("\u4e2d\u6587".encode("utf-16"), "byte 1 is not UTF-8"),
        (b"caf\xe9\n", "byte 4 is not UTF-8"),
        (b"\xed\xa0\x80", "byte 1 is not UTF-8"),
        (b"\x89PNG\r\n\x1a\n", "byte 1 is not UTF-8"),
        (b"%PDF-1.7\n", "it is a PDF document"),
    ],
)
def test_binary_files(data: bytes, why: str, project: Path) -> None:
    (project / "b").write_bytes(data)
    for check in (lambda: source_files.read(str(project), "b"), lambda: validate_context_limits([project / "b"])):
        with pytest.raises(ContextError) as caught:
            check()
        assert "b' is binary: " + why in caught.value.message


@pytest.mark.parametrize("data", [b"", b"\xef\xbb\xbfbom\r\n", "\u4e2d\U0001f600\u0301".encode(), b"\x1b[1mbold\x0c\n"])
def test_texts_are_kept_to_the_byte(data: bytes, project: Path) -> None:
    (project / "t").write_bytes(data)
    found = source_files.read(str(project), "t")
    assert (found.text.encode(), found.size) == (data, len(data))


def test_limits_need_existing_files(project: Path) -> None:
    os.mkfifo(project / "pipe")
    for name, why in (("nowhere", "does not exist"), ("src", "is a folder"), ("pipe", "is no regular file")):
        with pytest.raises(ValueError, match=why):
            validate_context_limits([project / name])
    validate_context_limits([])


def test_names_are_bytes(project: Path) -> None:
    name = os.fsdecode(b"bad\xff \n'name")
    (project / name).write_text("a\n")
    assert source_files.read(str(project), name) == source_files.Text(name, "a\n", 2)
    assert "does not exist" in refused(name + "x", project)


# -- what changes while it is looked at --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("victim", "component"), [("a.md", "file"), ("src/deep/b.py", "file"), ("src/deep/b.py", "folder")]
)
def test_file_swapped_for_a_link_is_not_followed(
    victim: str, component: str, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look and the opening somebody puts a link there."""
    located = source_files._located

    def swapped(root: str, path: str) -> str:
        found = located(root, path)
        target = project / victim
        if component == "folder":
            (tmp_path / "outside/deep").mkdir()
            (tmp_path / "outside/deep/b.py").write_text("outside\n")
            os.rename(project / "src", project / "old")
            (project / "src").symlink_to(tmp_path / "outside")
        else:
            target.unlink()
            target.symlink_to(tmp_path / "outside/o.md")
        return found

    monkeypatch.setattr(source_files, "_located", swapped)
    with pytest.raises(ContextError, match="was exchanged for a link while it was read"):
        source_files.read(str(project), victim)


def test_file_swapped_for_a_pipe_is_not_read(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    located = source_files._located

    def swapped(root: str, path: str) -> str:
        found = located(root, path)
        (project / "a.md").unlink()
        os.mkfifo(project / "a.md")
        return found

    monkeypatch.setattr(source_files, "_located", swapped)
    with pytest.raises(ContextError, match="is no regular file"):
        source_files.read(str(project), "a.md")


def test_no_descriptor_stays_open(project: Path) -> None:
    before = os.listdir("/proc/self/fd")
    source_files.read(str(project), "src/deep/b.py")
    for path in ("src/deep", "nowhere/a/b"):
        with pytest.raises(ContextError):
            source_files.read(str(project), path)
    assert os.listdir("/proc/self/fd") == before
