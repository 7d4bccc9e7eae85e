"""gitleaks and betterleaks are asked as their documentation says; a program of a few lines stands in for them here."""

from __future__ import annotations

import os
import random
import stat
import sys
from pathlib import Path

import pytest

from git_agentos.errors import AgentosError
from git_agentos.git.location import Location, locate
from git_agentos.secrets import fingerprints, programs
from git_agentos.secrets.scanner import Finding, Scanner
from tests.support.made_up_keys import BASE62, text
from tests.support.repo import Repo

KEY = bytes(32)
TOKEN = "gh" + "p_" + text(random.Random(6), BASE62, 36)
ODD = "odd-" + text(random.Random(7), BASE62, 30)

# It reads the files of the folder, and reports each word that begins with `odd-`, `ghp_` or `vague-`, in the report of
# gitleaks 8 (`report.Finding`). What it was given it writes beside itself.
STAND_IN = """\
#!{python}
import json, os, re, sys
argv = sys.argv[1:]
with open(__file__ + ".calls", "a") as calls:
    modes = [oct(os.stat(each).st_mode & 0o777) for each in (".", "..")]
    print(json.dumps([argv, sorted(os.listdir(".")), modes]), file=calls)
assert argv[0] == "dir"
options = dict(zip(argv[2::2], argv[3::2]))
top, report = argv[1], argv[argv.index("--report-path") + 1]
found = []
for folder, _, names in os.walk(top):
    for name in names:
        path = os.path.join(folder, name)
        for number, line in enumerate(open(path, "rb").read().decode("latin-1").split("\\n"), 1):
            for word in re.findall(r"(?:odd-|ghp_|vague-)\\S+", line):
                rule = {{"o": "odd-key", "g": "github-pat", "v": "generic-api-key"}}[word[0]]
                found.append({{
                    "RuleID": rule, "Description": "", "StartLine": number, "EndLine": number, "StartColumn": 1,
                    "EndColumn": 9, "Match": word, "Secret": word, "File": {file}, "SymlinkFile": "", "Commit": "",
                    "Entropy": 4.2, "Author": "", "Email": "", "Date": "", "Message": "", "Tags": [],
                    "Fingerprint": path + ":" + rule,
                }})
{end}
"""
WRITE = 'open(report, "w").write(json.dumps(found, indent=1))'


@pytest.fixture
def bin_folder(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    return tmp_path / "bin"


def install(folder: Path, name: str, *, end: str = WRITE, file: str = "os.path.normpath(path)") -> Path:
    program = folder / name
    program.write_text(STAND_IN.format(python=sys.executable, end=end, file=file))
    program.chmod(0o755)
    return program


def scan(
    repo: Repo, folder: Path, blobs: list[tuple[bytes, bytes]], scanner: Scanner | None = None
) -> list[tuple[Finding, ...]]:
    location: Location = locate(str(repo.path))
    environment = {"PATH": str(folder)}
    program = programs.find(environment, location)
    assert program is not None
    found = programs.scan_all(program, scanner or Scanner(KEY), blobs, location, environment)
    scratch = os.path.join(location.state_dir, "tmp")
    assert not os.path.isdir(scratch) or os.listdir(scratch) == []
    return found


def of(secret: str) -> str:
    return fingerprints.of(secret.encode(), KEY)


def test_none_is_installed(repo: Repo, bin_folder: Path) -> None:
    assert programs.find({"PATH": str(bin_folder)}, locate(str(repo.path))) is None


def test_betterleaks_goes_before_gitleaks(repo: Repo, bin_folder: Path) -> None:
    location, environment = locate(str(repo.path)), {"PATH": str(bin_folder)}
    first = install(bin_folder, "gitleaks")
    assert programs.find(environment, location) == ("gitleaks", str(first))
    second = install(bin_folder, "betterleaks")
    assert programs.find(environment, location) == ("betterleaks", str(second))
    second.chmod(0o644)
    assert programs.find(environment, location) == ("gitleaks", str(first))


def test_one_in_the_repository_is_not_used(repo: Repo, bin_folder: Path, tmp_path: Path) -> None:
    """An agent could write it: in a worktree, in the git directory, behind a link, by a relative folder."""
    linked = tmp_path / "linked"
    repo.git("worktree", "add", "-q", "--detach", str(linked))
    location = locate(str(repo.path))
    for folder in (repo.path / "bin", repo.git_dir / "bin", linked / "bin"):
        folder.mkdir()
        inside = install(folder, "gitleaks")
        assert programs.find({"PATH": str(folder)}, location) is None
        assert programs.find({"PATH": f":.:{os.path.relpath(folder)}"}, location) is None
        (bin_folder / "betterleaks").symlink_to(inside)
        assert programs.find({"PATH": str(bin_folder)}, location) is None
        (bin_folder / "betterleaks").unlink()
    outside = install(bin_folder, "gitleaks")
    path = os.pathsep.join((str(repo.path / "bin"), str(bin_folder)))
    assert programs.find({"PATH": path}, location) == ("gitleaks", str(outside))


def test_the_version_follows_the_program_and_its_configuration(bin_folder: Path, tmp_path: Path) -> None:
    config = tmp_path / "rules.toml"
    seen = []
    for environment in ({}, {"GITLEAKS_CONFIG": str(config)}, {"GITLEAKS_CONFIG_TOML": "[extend]"}):
        program = programs.Program("gitleaks", str(install(bin_folder, "gitleaks")))
        seen.append(programs.version(program, environment))
        assert programs.version(program, environment) == seen[-1]
        config.write_text("" if config.exists() else "[extend]\n")
    program = programs.Program("gitleaks", str(install(bin_folder, "gitleaks", end="pass  # another one")))
    seen += [programs.version(program, {}), programs.version(program, {"GITLEAKS_CONFIG": str(config)})]
    assert len(set(seen)) == len(seen)


@pytest.mark.parametrize("inside", [True, False])
def test_a_configuration_in_the_repository_does_not_count(
    repo: Repo, bin_folder: Path, tmp_path: Path, inside: bool
) -> None:
    install(bin_folder, "gitleaks", end=f"found[0]['RuleID'] = os.environ.get('GITLEAKS_CONFIG', 'none'); {WRITE}")
    config = (repo.path if inside else tmp_path) / "rules.toml"
    environment = {"PATH": str(bin_folder), "GITLEAKS_CONFIG": str(config)}
    location = locate(str(repo.path))
    program = programs.find(environment, location)
    assert program is not None
    found = programs.scan_all(program, Scanner(KEY), [(b"x", ODD.encode())], location, environment)
    assert [each.kind for each in found[0]] == ["none" if inside else str(config)]


@pytest.mark.parametrize("name", programs.NAMES)
@pytest.mark.parametrize("file", ["os.path.normpath(path)", "path", "os.path.abspath(path)", "path + '!inner/x'"])
def test_its_findings_are_added_to_ours(repo: Repo, bin_folder: Path, name: str, file: str) -> None:
    program = install(bin_folder, name, file=file)
    same = (b"a/one.txt", f"x\n{TOKEN}\nkey {ODD}\n".encode())
    blobs = [
        same,
        (b"two", b"nothing"),
        (b"a/one.txt", f"{ODD} {TOKEN}".encode()),
        (b"node_modules/.gitleaks.toml", b""),
    ]
    assert scan(repo, bin_folder, blobs) == [
        (Finding(b"a/one.txt", 2, "GitHub token", of(TOKEN)), Finding(b"a/one.txt", 3, "odd-key", of(ODD))),
        (),
        tuple(
            sorted((Finding(b"a/one.txt", 1, "GitHub token", of(TOKEN)), Finding(b"a/one.txt", 1, "odd-key", of(ODD))))
        ),
        (),
    ]
    calls = (program.parent / f"{name}.calls").read_text().splitlines()
    assert len(calls) == 1, "one start for all blobs"
    assert '"--ignore-gitleaks-allow"' in calls[0]
    assert '["0", "1", "2", "3"]' in calls[0]
    assert '["0o700", "0o700"]' in calls[0]
    assert "validation" not in calls[0]


def test_what_is_allowed_vague_or_a_placeholder_is_not_reported(repo: Repo, bin_folder: Path) -> None:
    install(bin_folder, "gitleaks")
    data = f"vague-{text(random.Random(1), BASE62, 30)}\nodd-example-placeholder-key\n{ODD}\n".encode()
    assert [each.line for each in scan(repo, bin_folder, [(b"x", data)])[0]] == [3]
    assert scan(repo, bin_folder, [(b"x", data)], Scanner(KEY, allowed=[of(ODD)])) == [()]


def test_names_of_any_bytes(repo: Repo, bin_folder: Path) -> None:
    install(bin_folder, "gitleaks")
    names = [b"bad\xff\n name", b"x" * 255, b"a/" * 300 + b"b", b"-r", b"report.json"]
    found = scan(repo, bin_folder, [(name, ODD.encode()) for name in names])
    assert [[each.path for each in one] for one in found] == [[name] for name in names]


def test_nothing_to_scan_starts_nothing(repo: Repo, bin_folder: Path) -> None:
    install(bin_folder, "gitleaks")
    assert scan(repo, bin_folder, []) == []
    assert not (bin_folder / "gitleaks.calls").exists()


@pytest.mark.parametrize("end", ["", 'open(report, "w").write("null")', 'open(report, "w").write("[]")'])
def test_no_findings(repo: Repo, bin_folder: Path, end: str) -> None:
    install(bin_folder, "gitleaks", end=end or WRITE)
    assert scan(repo, bin_folder, [(b"x", b"nothing")]) == [()]


@pytest.mark.parametrize(
    ("end", "message"),
    [
        ("sys.exit(1)", "'gitleaks' ended with 1, so what is new was not scanned by it"),
        ("os.kill(os.getpid(), 9)", "'gitleaks' ended with -9, so what is new was not scanned by it"),
        ("pass", "'gitleaks' wrote no report, so what is new was not scanned by it"),
        ('open(report, "w").write("{")', "'gitleaks' wrote no report, so what is new was not scanned by it"),
        ('open(report, "w").write("{}")', "the report of 'gitleaks' is not understood"),
        ('open(report, "w").write("[1]")', "the report of 'gitleaks' is not understood"),
        (
            'open(report, "w").write(json.dumps([{**found[0], "File": "7/x"}]))',
            "the report of 'gitleaks' is not understood",
        ),
        (
            'open(report, "w").write(json.dumps([{**found[0], "File": "/etc"}]))',
            "the report of 'gitleaks' is not understood",
        ),
        ('open(report, "w").write(json.dumps([{"File": "0/x"}]))', "the report of 'gitleaks' is not understood"),
    ],
)
def test_a_program_that_fails_is_never_taken_for_nothing_found(
    repo: Repo, bin_folder: Path, end: str, message: str
) -> None:
    install(bin_folder, "gitleaks", end=end)
    with pytest.raises(AgentosError) as caught:
        scan(repo, bin_folder, [(b"x", ODD.encode())])
    assert caught.value.message == message
    assert caught.value.hint == "repair it, or remove it from PATH: git-agentos then scans with its own rules alone"


def test_a_program_that_cannot_be_started(repo: Repo, bin_folder: Path) -> None:
    program = install(bin_folder, "gitleaks")
    program.write_bytes(b"#!/nowhere/at/all\n")
    assert program.stat().st_mode & stat.S_IXUSR
    with pytest.raises(AgentosError, match="'gitleaks' cannot be started: no such file or directory"):
        scan(repo, bin_folder, [(b"x", b"y")])
