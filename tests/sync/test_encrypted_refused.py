"""Encrypted timelines that cannot be read, or are not what they should be: named, with the reason, and nothing of them
is in the clone. What is not encrypted to somebody, or by a setting that anybody could have made, does not go out."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyrage
import pytest

from git_agentos.sync import names
from tests.support.age import Key, decrypt_with, encrypt_to
from tests.support.json_reference import check_document
from tests.support.remotes import clone, connect, make_bare, refs_on, require, sync
from tests.support.repo import Repo, fill
from tests.support.tool import run, run_ok

SECRET = "ghp_" + "x7Qm2Lr9Tz" * 3 + "4Wv8Np"


@pytest.fixture
def key(tmp_path: Path) -> Key:
    return Key(tmp_path, "ada")


@pytest.fixture
def shared(repo: Repo, tmp_path: Path, key: Key) -> Path:
    """A bare repository to which `repo`, the host `desk`, has pushed two bundles, and one of another worktree."""
    path = make_bare(tmp_path, repo)
    connect(repo, path, "desk")
    encrypt_to(repo, key.recipient)
    agent = Repo(Path(run_ok(repo.path, "worktree", "create", "dev-1", "--no-guard")["path"]))
    save(agent, "sound")
    for text in ("first", "second"):
        save(repo, text)
        sync(repo, "--all")
    return path


@pytest.fixture
def there(shared: Path, tmp_path: Path, key: Key) -> Repo:
    made = clone(tmp_path, shared, "lap")
    decrypt_with(made, key.path)
    return made


def save(repo: Repo, text: str) -> str:
    repo.write("notes.txt", text)
    return str(run_ok(repo.path, "checkpoint", "-m", text)["id"])


def objects(repo: Repo) -> list[str]:
    """Every object of a clone."""
    return sorted(repo.text("cat-file", "--batch-all-objects", "--batch-check").splitlines())


def refused(there: Repo, *mentions: str, others: bool = True) -> None:
    """`desk/main` is refused for such a reason, before and after; nothing of it is here. Other timelines come."""
    if others:
        sync(there, "--fetch", "--agent", "dev-1")
    before = (there.git("for-each-ref"), objects(there))
    for _ in range(2):
        done = run(there.path, "--json", "sync")
        check_document(done.json)
        assert (done.code, [each["timeline"] for each in done.json["refused"]]) == (1, ["desk/main"]), str(done)
        for each in mentions:
            assert each in done.json["refused"][0]["reason"]
        assert (there.git("for-each-ref"), objects(there)) == before
    assert not list((there.git_dir / "agentos" / "tmp").glob("*"))
    if others:
        assert list(_tracked(there)) == ["refs/agentos/remotes/origin/desk/timelines/dev-1"]


def _tracked(repo: Repo) -> dict[str, str]:
    rows = repo.text("for-each-ref", "--format=%(refname) %(objectname)", "refs/agentos/remotes").splitlines()
    return dict(row.split(" ") for row in rows)


# -- keys --------------------------------------------------------------------------------------------------------------


def test_no_key(there: Repo, shared: Path) -> None:
    """Nothing is fetched then; each timeline is named."""
    there.git("config", "--unset", "agentos.sync.identity")
    before = objects(there)
    done = run(there.path, "--json", "sync")
    assert done.code == 1
    assert done.json["refused"] == [
        {"timeline": f"desk/{name}", "reason": "it is encrypted, and 'agentos.sync.identity' is not set"}
        for name in ("dev-1", "main")
    ]
    assert (there.git("for-each-ref"), objects(there)) == (b"", before)


def test_another_key(there: Repo, tmp_path: Path) -> None:
    decrypt_with(there, Key(tmp_path, "eve").path)
    before = objects(there)
    done = run(there.path, "--json", "sync")
    assert done.code == 1
    assert {each["reason"] for each in done.json["refused"]} == {
        f"it is encrypted to other keys than those in '{tmp_path / 'eve.key'}'"
    }
    assert (there.git("for-each-ref"), objects(there)) == (b"", before)


def test_the_same_key_again(there: Repo, key: Key, tmp_path: Path) -> None:
    """Whoever gets the key has everything; several keys can be in one file."""
    other = Key(tmp_path, "eve")
    decrypt_with(there, other.path)
    assert run(there.path, "sync").code == 1
    other.path.write_text(other.path.read_text() + "\n" + key.path.read_text())
    assert len(sync(there)["fetched"]) == 2


@pytest.mark.parametrize(
    ("content", "mentions"),
    [
        (None, "no such file or directory"),
        (b"", "there is no key in"),
        (b"# public key: age1\n", "there is no key in"),
        (b"AGE-SECRET-KEY-1NOTAKEY\n", "has no key that can be used"),
        (b"\xff\x00\x01", "has no key that can be used"),
        (b"-----BEGIN AGE ENCRYPTED FILE-----\nx\n", "are encrypted"),
        (b"-----BEGIN OPENSSH PRIVATE KEY-----\nx\n-----END OPENSSH PRIVATE KEY-----\n", "has no key that can be used"),
    ],
    ids=["none", "empty", "comment", "damaged", "binary", "encrypted", "ssh"],
)
def test_files_that_are_no_key(content: bytes | None, mentions: str, there: Repo, tmp_path: Path) -> None:
    path = tmp_path / "no.key"
    if content is not None:
        path.write_bytes(content)
    decrypt_with(there, path)
    done = run(there.path, "--json", "sync")
    assert (done.code, len(done.json["refused"])) == (1, 2)
    for each in done.json["refused"]:
        assert mentions in each["reason"]
        assert str(path) in each["reason"]
        assert "NOTAKEY" not in each["reason"]


def test_keys_with_a_passphrase(there: Repo, tmp_path: Path) -> None:
    program = require("ssh-keygen", "openssh-client")
    subprocess.run([program, "-q", "-t", "ed25519", "-N", "words", "-f", tmp_path / "id"], check=True)
    decrypt_with(there, tmp_path / "id")
    done = run(there.path, "--json", "sync")
    assert "ssh key must be decrypted first" in done.json["refused"][0]["reason"]


def test_a_key_that_may_not_be_read(there: Repo, key: Key) -> None:
    key.path.chmod(0)
    for each in (there.path, key.path.parent):
        each.chmod(0o755)
    done = run(there.path, "--json", "sync", unprivileged=True)
    assert done.code == 1
    assert "permission denied" in done.json["refused"][0]["reason"]


def test_a_path_that_is_not_absolute(there: Repo) -> None:
    there.config("agentos.sync.identity", "key")
    assert "bad value 'key'" in run(there.path, "--json", "sync").json["refused"][0]["reason"]


# -- what is on the remote ---------------------------------------------------------------------------------------------


class Forger:
    """Somebody who can push to the remote, with plain git."""

    def __init__(self, repo: Repo, shared: Path) -> None:
        self.repo = repo
        self.bare = Repo(shared)
        self.tip = refs_on(shared)["desk/bundles/main"]
        self.empty = repo.text("hash-object", "-t", "tree", "/dev/null")

    def data(self, revision: str) -> bytes:
        """The encrypted bundle of an E."""
        return self.bare.git("cat-file", "blob", f"{revision}^2:0000.age")

    def bundle(self, data: bytes, name: str = "0000.age", like: str = "^2") -> str:
        """A D with this in it."""
        blob = self.bare.git("hash-object", "-w", "--stdin", stdin=data).decode().strip()
        tree = self.bare.git("mktree", stdin=f"100644 blob {blob}\t{name}\n".encode()).decode().strip()
        return self.commit(tree, self.bare.text("rev-list", "--parents", "-1", f"{self.tip}{like}").split()[1:])

    def commit(self, tree: str, parents: list[str], message: str = "x\n\nAgentos-Bundle: 1\n") -> str:
        words = [word for each in parents for word in ("-p", each)]
        env = {f"GIT_{who}_{what}": "x@x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        return self.bare.git("commit-tree", tree, *words, stdin=message.encode(), env=env).decode().strip()

    def put(self, tip: str, name: str = "desk/bundles/main") -> None:
        self.bare.git("update-ref", f"refs/agentos/hosts/{name}", tip)

    def chain(self, *bundles: str, below: str | None = None) -> None:
        """Put a chain of such D there."""
        tip = below or self.commit(self.empty, [])
        for each in bundles:
            tip = self.commit(self.empty, [tip, each])
        self.put(tip)


@pytest.fixture
def forger(repo: Repo, shared: Path) -> Forger:
    return Forger(repo, shared)


DAMAGES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "the header": (lambda data: b"x" + data[1:], "damaged, or not encrypted by age"),
    "the key": (lambda data: data.replace(b"X25519", b"X25518", 1), "encrypted to other keys"),
    "the middle": (lambda data: data[:400] + bytes([data[400] ^ 1]) + data[401:], "does not verify"),
    "the end": (lambda data: data[:-1] + bytes([data[-1] ^ 1]), "does not verify"),
    "cut": (lambda data: data[:-20], "does not verify"),
    "cut in the header": (lambda data: data[:60], "damaged, or not encrypted by age"),
    "more": (lambda data: data + b"x", "does not verify"),
    "empty": (lambda _: b"", "damaged, or not encrypted by age"),
    "plain": (lambda _: b"# v2 git bundle\n\n", "damaged, or not encrypted by age"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_bundle(damage: str, there: Repo, forger: Forger) -> None:
    change, mentions = DAMAGES[damage]
    second = forger.data(forger.tip)
    forger.chain(forger.bundle(change(second)), below=forger.bare.oid(f"{forger.tip}^1"))
    refused(there, mentions)


def encrypted(data: bytes, key: Key) -> bytes:
    return bytes(pyrage.encrypt(data, [pyrage.x25519.Recipient.from_str(key.recipient)]))


CONTENTS: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "it is no bundle of git"),
    "text": (b"hello\n", "it is no bundle of git"),
    "without an end": (b"# v2 git bundle\n", "is not sound"),
    "a filter": (b"# v3 git bundle\n@filter=blob:none\n", "is not sound"),
    "another hash": (b"# v3 git bundle\n@object-format=md5\n\n", "named by md5"),
    "no ref": (b"# v2 git bundle\n\n", "not encrypted as a part of this timeline"),
    "many lines": (b"# v2 git bundle\n" + b"-" + b"1" * 40 + b" \n" * 3, "is not sound"),
    "a long line": (b"# v2 git bundle\n" + b"1" * 100_000 + b"\n\n", "is not sound"),
    "binary": (b"# v2 git bundle\n\xff\xfe\n\n", "is not sound"),
}


@pytest.mark.parametrize("what", CONTENTS)
def test_what_is_no_bundle(what: str, there: Repo, forger: Forger, key: Key) -> None:
    """Whoever knows the recipients can encrypt to them."""
    data, mentions = CONTENTS[what]
    forger.chain(forger.bundle(encrypted(data, key)))
    refused(there, "bundle 1 of 1 cannot be read", mentions)


def make_bundle(repo: Repo, revision: str, *without: str, name: str = "desk/timelines/main") -> bytes:
    """A bundle of git's own."""
    ref = f"refs/agentos/hosts/{name}"
    repo.git("update-ref", ref, revision)
    path = repo.scratch / "made.bundle"
    repo.git("bundle", "create", "-q", str(path), ref, *(f"^{each}" for each in without))
    repo.git("update-ref", "-d", ref)
    return path.read_bytes()


def test_a_bundle_of_gits_own_is_read(there: Repo, forger: Forger, repo: Repo, key: Key) -> None:
    """So that what follows is refused for what it has, and for nothing else."""
    tip = repo.oid("refs/agentos/timelines/main")
    forger.chain(forger.bundle(encrypted(make_bundle(repo, tip), key)))
    sync(there)
    assert _tracked(there)["refs/agentos/remotes/origin/desk/timelines/main"] == tip


def test_contents_that_are_no_timeline(there: Repo, forger: Forger, repo: Repo, key: Key) -> None:
    for revision, mentions in (
        ("HEAD", ""),
        ("refs/agentos/timelines/dev-1", "of the worktree 'dev-1'"),
    ):
        forger.chain(forger.bundle(encrypted(make_bundle(repo, repo.oid(revision)), key)))
        before = there.git("for-each-ref")
        done = run(there.path, "--json", "sync", "--fetch", "--agent", "main")
        assert done.code == 1
        assert there.git("for-each-ref") == before
        assert mentions in done.json["refused"][0]["reason"]


def test_a_bundle_of_another_timeline(there: Repo, forger: Forger, shared: Path) -> None:
    """What is sound is refused under another name: of a worktree, of a host, and as another generation."""
    sound = refs_on(shared)["desk/bundles/dev-1"]
    forger.put(sound)
    refused(there, "it was not encrypted as a part of this timeline")
    forger.put(forger.tip)
    forger.put(forger.tip, "eve/bundles/main")
    forger.put(forger.tip, "desk/bundles/main@2")
    done = run(there.path, "--json", "sync")
    assert [each["timeline"] for each in done.json["refused"]] == ["desk/main", "eve/main"]
    assert list(_tracked(there)) == ["refs/agentos/remotes/origin/desk/timelines/dev-1"]


def test_an_earlier_bundle_is_missing(there: Repo, forger: Forger) -> None:
    forger.chain(forger.bare.oid(f"{forger.tip}^2"))
    refused(there, "bundle 1 of 1 cannot be read: it continues something that is not here")


def test_a_bundle_that_lacks_objects(there: Repo, forger: Forger, repo: Repo, key: Key) -> None:
    """Its pack is sound, but one of the blobs is not in it."""
    tip = repo.oid("refs/agentos/timelines/main")
    rows = repo.text("rev-list", "--objects", tip).splitlines()
    blob = next(row.split()[0] for row in rows if row.endswith(" notes.txt"))
    oids = "".join(f"{row.split()[0]}\n" for row in rows if not row.startswith(blob))
    pack = repo.git("pack-objects", "--stdout", "-q", stdin=oids.encode())
    head = b"# v2 git bundle\n"
    if len(tip) == 64:
        head = b"# v3 git bundle\n@object-format=sha256\n"
    data = head + f"{tip} refs/agentos/hosts/desk/timelines/main\n\n".encode() + pack
    forger.chain(forger.bundle(encrypted(data, key)))
    refused(there, "its bundles lack a part of it")
    data = data[:-30] + bytes(10) + data[-20:]
    forger.chain(forger.bundle(encrypted(data, key)))
    refused(there, "bundle 1 of 1 cannot be read")


def test_what_is_no_chain(there: Repo, forger: Forger, repo: Repo) -> None:
    """Commits of a project, a chain without bundles, trees that are not empty, other names and modes of pieces."""
    data = forger.bare.oid(f"{forger.tip}^2")
    beginning = forger.commit(forger.empty, [])
    full = forger.bare.oid(f"{data}^{{tree}}")
    repo.git("push", "-q", "origin", "HEAD:refs/heads/main")
    forms = {
        "commits": repo.oid("HEAD"),
        "not empty": forger.commit(full, [beginning, data]),
        "three parents": forger.commit(forger.empty, [beginning, data, forger.tip]),
        "one parent": forger.commit(forger.empty, [beginning]),
        "full beginning": forger.commit(forger.empty, [forger.commit(full, []), data]),
    }
    for tip in forms.values():
        forger.put(tip)
        refused(there, "it is not a chain of encrypted bundles")
    forger.put(beginning)
    refused(there, "it has no bundles")
    forger.chain(forger.bundle(b"x", name="0001.age"))
    refused(there, "its tree has no encrypted bundle")
    forger.chain(forger.commit(forger.empty, [], "x\n\nAgentos-Bundle: 1\n\nx\n"))
    refused(there, "its tree has no encrypted bundle")
    forger.chain(forger.commit(full, [], "x\n"))
    refused(there, "it is no bundle of git-agentos")
    forger.chain(forger.commit(full, [], "x\n\nAgentos-Bundle: 2\n"))
    refused(there, "a newer version of git-agentos has written it")


def test_a_tree_that_git_would_not_write(there: Repo, forger: Forger) -> None:
    tree = (
        forger.bare.git("hash-object", "-t", "tree", "-w", "--stdin", "--literally", stdin=b"100644 x").decode().strip()
    )
    forger.chain(forger.commit(tree, []))
    refused(there)


def test_a_chain_that_was_replaced(there: Repo, forger: Forger, repo: Repo, key: Key, shared: Path) -> None:
    """Neither an earlier end of it nor another chain takes the place of what was fetched."""
    sync(there)
    before = _tracked(there)
    forger.put(forger.bare.oid(f"{forger.tip}^1"))
    refused(there, "does not continue what was fetched before", others=False)
    other = make_bundle(repo, repo.oid("refs/agentos/timelines/main~1"))
    forger.chain(forger.bundle(encrypted(other, key)))
    refused(there, "does not continue what was fetched before", others=False)
    assert _tracked(there) == before
    forger.put(forger.tip)
    assert sync(there)["fetched"] == []
    last = save(repo, "third")
    sync(repo)
    sync(there)
    assert run_ok(there.path, "checkpoint", "list", "--host", "desk")["checkpoints"][0]["id"] == last


def test_much_in_little(there: Repo, forger: Forger, repo: Repo, key: Key) -> None:
    """Objects that no checkpoint reaches do not get into the clone, whatever a bundle has."""
    tip = repo.oid("refs/agentos/timelines/main")
    zeros = repo.git("hash-object", "-w", "--stdin", stdin=bytes(20_000_000)).decode().strip()
    oids = [row.split()[0] for row in repo.text("rev-list", "--objects", tip).splitlines()]
    pack = repo.git("pack-objects", "--stdout", "-q", stdin="".join(f"{each}\n" for each in [*oids, zeros]).encode())
    head = b"# v3 git bundle\n@object-format=sha256\n" if len(tip) == 64 else b"# v2 git bundle\n"
    data = head + f"{tip} refs/agentos/hosts/desk/timelines/main\n\n".encode() + pack
    forger.chain(forger.bundle(encrypted(data, key)))
    assert len(data) < 200_000
    sync(there)
    assert there.try_git("cat-file", "-e", zeros) != 0
    assert there.try_git("cat-file", "-e", tip) == 0


@pytest.mark.parametrize(
    "name", ["x/bundles/main/more", "x/bundles/main@1", "x/bundles/..", "x/bundle/main", "x/bundles/"]
)
def test_names_that_are_none(name: str) -> None:
    assert names.parse(names.HOSTS + name) is None


@pytest.mark.parametrize("name", ["x/bundles/main", "a.b-c_1/bundles/dev-1@2"])
def test_names(name: str) -> None:
    found = names.parse(names.HOSTS + name)
    assert found is not None
    assert (found.on_remote, found.is_encrypted) == (names.HOSTS + name, True)
    assert names.parse_fetched(found.fetched_from("a/b")) == ("a/b", found._replace(is_encrypted=False))
    assert names.parse_fetched(found.on_remote.replace("hosts", "remotes/a", 1)) is None


# -- pushing -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value", ["ada@example.com", "age1", "ssh-ed25519 AAAA", "ecdsa-sha2-nistp256 AAAA", "age1pq1"]
)
def test_what_is_no_recipient(value: str, repo: Repo, shared: Path) -> None:
    """Nothing is pushed then, clear or encrypted."""
    before = refs_on(shared)
    save(repo, "third")
    encrypt_to(repo, *repo.text("config", "agentos.sync.encryptTo").split(), value)
    done = run(repo.path, "--json", "sync")
    assert (done.code, done.json["error"]["kind"]) == (1, "configuration")
    assert f"bad value '{value}' for 'agentos.sync.encryptTo'" in done.json["error"]["message"]
    assert refs_on(shared) == before


def test_a_key_in_place_of_a_recipient_is_not_shown(repo: Repo, shared: Path, key: Key) -> None:
    secret = key.path.read_text().split()[-1]
    encrypt_to(repo, secret)
    done = run(repo.path, "sync")
    assert done.code == 1
    assert secret[20:].encode() not in done.out + done.err


@pytest.mark.parametrize("name", ["agentos.sync.encryptTo", "agentos.sync.identity"])
def test_settings_that_agents_could_make(
    name: str, repo: Repo, shared: Path, there: Repo, key: Key, tmp_path: Path
) -> None:
    """They are not taken from a worktree's configuration or from a file in the worktree, and nothing happens then."""
    eve = Key(tmp_path, "eve")
    where = repo if name.endswith("encryptTo") else there
    value = eve.recipient if where is repo else str(eve.path)
    save(repo, "third")
    before = refs_on(shared)
    where.config("extensions.worktreeConfig", "true")
    where.git("config", "--worktree", "--add", name, value)
    _is_not_taken(where, name)
    where.git("config", "--worktree", "--unset-all", name)
    where.write("config", f'[agentos "sync"]\n\t{name.rpartition(".")[2]} = {value}\n')
    where.config("include.path", str(where.path / "config"))
    _is_not_taken(where, name)
    assert refs_on(shared) == before


def _is_not_taken(where: Repo, name: str) -> None:
    done = run(where.path, "--json", "sync")
    assert done.code == 1, str(done)
    said = done.json["error"]["message"] if "error" in done.json else done.json["refused"][0]["reason"]
    assert re.fullmatch(f"'{name}' is set in '.*config.*', which is not your own configuration", said)


def test_without_the_library(repo: Repo, shared: Path, there: Repo, tmp_path: Path) -> None:
    save(repo, "third")
    before = refs_on(shared)
    (tmp_path / "without").mkdir()
    (tmp_path / "without" / "pyrage.py").write_text("raise ImportError('there is none')\n")
    env = {"PYTHONPATH": str(tmp_path / "without")}
    done = run(repo.path, "--json", "sync", env=env)
    assert (done.code, done.json["error"]["kind"]) == (1, "configuration")
    assert done.json["error"]["hint"] == "pip install 'git-agentos[sync]' installs pyrage"
    assert refs_on(shared) == before
    done = run(there.path, "--json", "sync", env=env)
    assert (done.code, len(done.json["refused"])) == (1, 2)
    encrypt_to(repo)
    assert run(repo.path, "sync", "--push", env=env).code == 0


def test_a_remote_that_says_it_has_what_it_lacks(repo: Repo, shared: Path, tmp_path: Path) -> None:
    """It lists a commit that was never pushed, and does not say so when something is pushed: what the commit
    has is not sent."""
    repo.write("name-plain", "content-plain\n")
    private = repo.commit("message-plain")
    save(repo, "third")
    listed = {f"refs/agentos/hosts/{name}": oid for name, oid in refs_on(shared).items()} | {"refs/heads/main": private}
    script = tmp_path / "upload-pack"
    algorithm = repo.text("rev-parse", "--show-object-format")
    script.write_text(
        "#!/usr/bin/env python3\n"
        "import sys\n"
        f"able = b'\\0agent=x object-format={algorithm}'\n"
        f"for number, (name, oid) in enumerate({listed!r}.items()):\n"
        "    line = f'{oid} {name}'.encode() + (able if number == 0 else b'') + b'\\n'\n"
        "    sys.stdout.buffer.write(b'%04x' % (len(line) + 4) + line)\n"
        "sys.stdout.buffer.write(b'0000')\n"
        "sys.stdout.buffer.flush()\n"
        "sys.stdin.buffer.read()\n"
    )
    script.chmod(0o755)
    repo.config("remote.origin.uploadpack", str(script))
    before = refs_on(shared)
    done = run(repo.path, "--json", "sync", "--push")
    assert (done.code, [each["timeline"] for each in done.json["refused"]]) == (1, ["main"])
    assert refs_on(shared) == before
    out = subprocess.run(
        ["git", "cat-file", "--batch-all-objects", "--batch"], cwd=shared, capture_output=True, check=True
    ).stdout
    assert b"-plain" not in out
    assert Repo(shared).try_git("cat-file", "-e", private) != 0
    repo.git("config", "--unset", "remote.origin.uploadpack")
    assert sync(repo, "--push")["pushed"][0]["checkpoints"] == 1


def test_after_going_back_secrets_are_held_back(repo: Repo, shared: Path) -> None:
    """What has only been pushed encrypted was never searched."""
    repo.write("settings.py", f"token = '{SECRET}'\n")
    saved = save(repo, "with a secret")
    sync(repo)
    encrypt_to(repo)
    done = run(repo.path, "--json", "sync")
    assert (done.code, {each["checkpoint"] for each in done.json["held_back"]}) == (3, {saved})
    assert sorted(refs_on(shared)) == ["desk/bundles/dev-1", "desk/bundles/main", "desk/timelines/main@2"]


# -- what this clone knows of its own ----------------------------------------------------------------------------------


def notes_of(repo: Repo) -> Path:
    return repo.git_dir / "agentos" / "sync" / "remote-origin.bundles"


def test_notes_that_were_lost(repo: Repo, shared: Path, there: Repo, key: Key) -> None:
    """Without a key nothing is pushed over what is there. With it, everything is pushed again: to whom it was encrypted
    is not known any more."""
    last = save(repo, "third")
    for content in (None, "", "{}", '{"timelines": {"desk/main": [["x", "y", "z", []]]}}'):
        if content is None:
            notes_of(repo).unlink()
        else:
            notes_of(repo).write_text(content)
        before = refs_on(shared)
        done = run(repo.path, "--json", "sync")
        assert (done.code, done.json["pushed"], refs_on(shared)) == (1, [], before)
        assert done.json["refused"] == [
            {
                "timeline": "main",
                "reason": "the remote has bundles of the host 'desk' that this clone does not know: it is encrypted,"
                " and 'agentos.sync.identity' is not set",
            }
        ]
    decrypt_with(repo, key.path)
    assert sync(repo)["pushed"][0]["checkpoints"] == 1
    assert sorted(refs_on(shared)) == ["desk/bundles/dev-1", "desk/bundles/main@2"]
    sync(there)
    assert run_ok(there.path, "checkpoint", "list", "--host", "desk")["checkpoints"][0]["id"] == last


def test_the_ref_was_deleted_on_the_remote(repo: Repo, shared: Path, there: Repo) -> None:
    """As documented: everything is pushed again."""
    sync(there)
    repo.git("push", "-q", "origin", "--delete", "refs/agentos/hosts/desk/bundles/main")
    last = save(repo, "third")
    assert sync(repo)["pushed"][0]["checkpoints"] == 3
    assert sorted(refs_on(shared)) == ["desk/bundles/dev-1", "desk/bundles/main"]
    sync(there)
    assert run_ok(there.path, "checkpoint", "list", "--host", "desk")["checkpoints"][0]["id"] == last


@pytest.mark.parametrize("has_key", [False, True])
@pytest.mark.parametrize("is_copy", [False, True])
def test_a_name_that_two_clones_have(
    is_copy: bool, has_key: bool, repo: Repo, shared: Path, tmp_path: Path, key: Key
) -> None:
    """The second is refused, and what the first has pushed stays."""
    if is_copy:
        shutil.copytree(repo.path, tmp_path / "copy", symlinks=True)
        other = Repo(tmp_path / "copy")
    else:
        other = clone(tmp_path, shared, "copy")
        other.config("agentos.sync.host", "desk")
        encrypt_to(other, key.recipient)
        fill(other)
    if has_key:
        decrypt_with(other, key.path)
    save(repo, "mine")
    save(other, "theirs")
    sync(repo)
    kept = refs_on(shared)
    done = run(other.path, "--json", "sync")
    assert (done.code, done.json["pushed"]) == (1, [])
    wanted = "another clone pushes as the host 'desk', too" if has_key else "that this clone does not know"
    assert wanted in done.json["refused"][0]["reason"]
    assert refs_on(shared) == kept
    other.config("agentos.sync.host", "lap")
    assert sync(other, "--push")["pushed"]
    assert refs_on(shared).items() > kept.items()


def test_two_processes_push(repo: Repo, shared: Path, there: Repo) -> None:
    """One after the other; each checkpoint comes once."""
    saved = [save(repo, text) for text in "abc"]
    jobs = [subprocess.Popen(_command(repo), stdout=subprocess.DEVNULL, cwd=repo.path) for _ in range(3)]
    assert [job.wait() for job in jobs] == [0, 0, 0]
    sync(there)
    shown = [each["id"] for each in run_ok(there.path, "checkpoint", "list", "--host", "desk")["checkpoints"]]
    assert shown[:3] == saved[::-1]
    assert len(shown) == 5


def _command(repo: Repo) -> list[Any]:
    return [sys.executable, "-m", "git_agentos", "-C", repo.path, "sync", "--push"]
