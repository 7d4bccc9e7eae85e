"""The documentation is held against the code: examples run, tables list what there is, links lead somewhere.

Each fenced block is marked (`tests.support.documents`): as one that runs, as the output of one, or as one that cannot
run, with the reason. Blocks run in order, in one scratch repository for each document, with `git agentos` on PATH.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import git_agentos
from git_agentos import config, errors, run, workspace
from git_agentos.api import fleet_results, report_results, results
from git_agentos.guard.configuration import settings
from tests.support.documents import (
    DATA,
    NOT_RUN,
    OUTPUT,
    RUNNABLE,
    blocks,
    environment,
    read,
    run_python,
    run_shell,
)  # fmt: skip
from tests.support.env import PROJECT_ROOT
from tests.support.lean_python import minimal_venv
from tests.support.repo import git

ROOT = PROJECT_ROOT
API, FORMAT = ROOT / "docs/api.md", ROOT / "docs/format.md"
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]

_LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")


def table(document: Path, heading: str) -> list[list[str]]:
    """The cells of the first table below a heading, without its head."""
    text = document.read_text().split(f"## {heading}\n", 1)[1]
    rows = [line for line in text.split("\n## ", 1)[0].splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows[1:]]


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """A sealed environment in which `git agentos` is this source tree."""
    return environment(tmp_path)


@pytest.fixture
def scratch(tmp_path: Path, env: dict[str, str]) -> Path:
    """A repository with one commit, and with staged, unstaged and untracked changes."""
    root = tmp_path / "scratch"
    git(tmp_path, "init", "--quiet", str(root), env=env)
    (root / "README").write_text("one\ntwo\nthree\n")
    (root / "main.py").write_text("print(1)\n")
    git(root, "add", ".", env=env)
    git(root, "commit", "--quiet", "-m", "start", env=env)
    (root / "main.py").write_text("print(2)\n")
    git(root, "add", ".", env=env)
    (root / "README").write_text("one\n2\nthree\n")
    (root / "new.txt").write_text("new\n")
    return root


def tracked(root: Path, env: dict[str, str]) -> tuple[bytes, bytes, dict[str, str]]:
    """HEAD, index entries, and the files of a small worktree."""
    files = {path.name: path.read_text() for path in root.iterdir() if path.is_file()}
    return git(root, "rev-parse", "HEAD", env=env), git(root, "ls-files", "--stage", env=env), files


# What a document takes for granted before its first block, as shell text in the scratch repository.
PREPARED = {
    "docs/api.md": """
        echo 'Write the answer to answer.txt.' >task.md
        printf 'test:\\n\\tgrep -q 42 answer.txt\\n' >Makefile
        git add task.md Makefile
        git commit --quiet -m task
    """,
    "docs/guard.md": "git agentos worktree create dev-001",
    "docs/log.md": """
        mkdir docs && echo plan >docs/plan.md
        git agentos worktree create dev-001
        git agentos worktree create dev-002
        for id in dev-001 dev-002; do git agentos -C "$(git agentos worktree path $id)" checkpoint -m "of $id"; done
    """,
    "docs/report.md": """
        for id in dev-001 dev-002; do git agentos worktree create $id; done
    """,
    "docs/runs.md": """
        git init --quiet path/to/repository
        git -C path/to/repository commit --quiet --allow-empty -m start
    """,
    "docs/turns.md": """
        tell() {
            printf '{"session_id": "s-1", "hook_event_name": "%s", "prompt": "go"}' $1 |
                git agentos guard harness claude-code
        }
        tell UserPromptSubmit && echo more >>README && tell Stop
    """,
    "docs/worktrees.md": """
        git branch develop
        for id in dev-002 dev-003; do
            git agentos worktree create $id
            cd "$(git agentos worktree path $id)"
            echo work >$id.txt
            git add . && git commit --quiet -m "work of $id"
            cd - >/dev/null
        done
    """,
}
# In the place of a model: a program that does what it is asked.
CLAUDE = "#!/bin/sh\necho 42 >answer.txt\n"
# Documents with tests of their own below, since they need another repository, or go on from block to block.
OWN_TESTS = ("docs/format.md", "docs/tdd.md")
RUN = [str(path.relative_to(ROOT)) for path in DOCUMENTS if any(each.mark == RUNNABLE for each in read(path))]


@pytest.mark.parametrize("name", [each for each in RUN if each not in OWN_TESTS])
def test_blocks_run(name: str, tmp_path: Path, scratch: Path, env: dict[str, str]) -> None:
    """The marked blocks of a document, in order, in one repository; what is shown as output is what they print."""
    claude = tmp_path / "bin/claude"
    claude.write_text(CLAUDE)
    claude.chmod(0o755)
    run_shell(PREPARED.get(name, ""), scratch, env)
    printed = None
    for block in read(ROOT / name):
        where = f"{name}:{block.line}"
        if block.mark == OUTPUT:
            assert printed == block.body, where
        printed = None
        if block.mark == RUNNABLE:
            run = {"sh": run_shell, "python": run_python}[block.language]
            printed = run(block.body, scratch, env)
    # What the blocks have set is understood.
    run_shell("git agentos status", scratch, env)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_block_runs_or_says_why_not(document: Path) -> None:
    """Also finds a marker with a typing mistake, which would take its block out of the tests."""
    found = list(read(document))
    for block in found:
        where = f"{document.name}:{block.line}"
        if block.language in DATA:
            assert block.mark == "", where
        else:
            assert block.mark, f"{where}: mark it as runnable, or as not run with the reason"
        if block.mark == RUNNABLE:
            assert block.language in ("sh", "python"), where
        if block.language == "json":
            json.loads(block.body)
    outputs = [n for n, block in enumerate(found) if block.mark == OUTPUT]
    assert all(n > 0 and found[n - 1].mark == RUNNABLE for n in outputs)
    marked = sum(block.mark != "" for block in found)
    assert len(re.findall(r"<!-- *(?:runnable|output|not run)", document.read_text())) == marked


def test_blocks_not_run_are_few_and_say_why() -> None:
    """They are few, and each says why."""
    reasons = [block.reason for path in DOCUMENTS for block in read(path) if block.mark == NOT_RUN]
    known = ("it needs", "it installs", "it goes on until Ctrl-C", "a synopsis", "an example of", "the output is",
             "the id is that of")  # fmt: skip
    assert [each for each in reasons if not each.startswith(known)] == []
    assert len(reasons) < 22


@pytest.mark.slow
def test_tdd(tmp_path: Path, scratch: Path, env: dict[str, str]) -> None:
    """Each block goes on where the one before has left off. The project's Python is one that starts quickly."""
    activated = env | {"VIRTUAL_ENV": str(minimal_venv(tmp_path / "venv").parents[1])}
    run_shell("\n".join(blocks(ROOT / "docs/tdd.md", "runnable", "sh")), scratch, activated)


def test_format_is_readable_with_plain_git(scratch: Path, env: dict[str, str]) -> None:
    """The recipes of format.md, in order, bring back a worktree in conflict that was wrecked before."""
    git(scratch, "stash", "--quiet", "--include-untracked", env=env)
    git(scratch, "branch", "side", env=env)
    for branch, line in (("main", "ours"), ("side", "theirs")):
        git(scratch, "switch", "--quiet", branch, env=env)
        (scratch / "README").write_text(f"one\n{line}\nthree\n")
        git(scratch, "commit", "--quiet", "-am", line, env=env)
    git(scratch, "switch", "--quiet", "main", env=env)
    assert (
        subprocess.run(["git", "merge", "--quiet", "side"], cwd=scratch, env=env, capture_output=True).returncode == 1
    )
    (scratch / "new.txt").write_text("new\n")
    (scratch / "main.py").write_text("print(3)\n")
    before = tracked(scratch, env), (scratch / ".git/MERGE_HEAD").read_bytes()
    run_shell("git agentos checkpoint -m 'in conflict'", scratch, env)
    meta = json.loads(git(scratch, "cat-file", "blob", "refs/agentos/timelines/main^2^4:meta.json", env=env))
    assert {key for row in table(FORMAT, "meta.json") for key in _code(row[0])} == meta.keys()
    git(scratch, "merge", "--abort", env=env)
    (scratch / "new.txt").unlink()
    git(scratch, "commit", "--quiet", "--allow-empty", "-m", "later", env=env)

    assert tracked(scratch, env) != before[0]
    without_the_tool = env | {"PATH": env["PATH"].partition(os.pathsep)[2]}
    for block in blocks(FORMAT, "runnable", "sh"):
        run_shell(block, scratch, without_the_tool)

    assert (tracked(scratch, env), (scratch / ".git/MERGE_HEAD").read_bytes()) == before
    assert (scratch.parent / "as-it-was/new.txt").read_text() == "new\n"


NOUNS = {
    "repo.": git_agentos.OpenRepository,
    "repo.checkpoints.": git_agentos.Checkpoints,
    "repo.worktrees.": git_agentos.Worktrees,
    "repo.runs.": git_agentos.Runs,
    "repo.remotes.": git_agentos.Remotes,
    "repo.fleets.": git_agentos.Fleets,
    "repo.log.": git_agentos.Log,
    "repo.turns.": git_agentos.Turns,
    "repo.guard.": git_agentos.Guard,
    "repo.approvals.": git_agentos.Approvals,
}


def test_api_lists_every_call() -> None:
    """The names, defaults and results in the table are those of the nouns, no more and no fewer."""
    documented = {
        re.sub(r"\s", "", call): result for row in table(API, "Calls") for call, result in [_code("".join(row[:2]))]
    }
    calls = {
        _call(f"{noun}{name}", method): str(inspect.signature(method).return_annotation)
        for noun, cls in NOUNS.items()
        for name, method in inspect.getmembers(cls, inspect.isfunction)
        if not name.startswith("_")
    }
    assert documented == calls


def test_old_names_are_there() -> None:
    """The names of the old API, and every method of `Workspace`."""
    names = [name for row in table(API, "Old names") for name in _code(row[0])]
    methods = {name.rpartition(".")[2] for name in names if name.startswith((".", "workspace."))}
    assert methods == {
        name for name, _ in inspect.getmembers(workspace.Workspace, inspect.isfunction) if not name.startswith("_")
    }
    for name in names:
        if "." in name and name.rpartition(".")[2] not in methods:
            assert callable(_resolve(f"git_agentos.{name}")), name
        elif "." not in name:
            assert hasattr(git_agentos, name), name


def _resolve(name: str) -> object:
    """What a dotted name means: some modules are attributes of their package, without a file."""
    package, _, last = name.rpartition(".")
    if not package:
        return importlib.import_module(name)
    try:
        return getattr(_resolve(package), last)
    except AttributeError:
        return importlib.import_module(name)


def test_api_lists_the_workspace_of_a_run() -> None:
    """The methods are those of the protocol, and both services have them as it says; so is how one is made."""
    documented = {_code(row[0])[0].partition("(")[0] for row in table(API, "The workspace service")}
    methods = dict(inspect.getmembers(run.WorkspaceService, inspect.isfunction))
    public = {name: _call(name, method) for name, method in methods.items() if not name.startswith("_")}
    assert {each for each in documented if "." not in each} == set(public)
    for service in (run.GitWorktreeWorkspaceService, run.NullWorkspaceService):
        assert {name: _call(name, getattr(service, name)) for name in public} == public
    made = _call("GitWorktreeWorkspaceService", run.GitWorktreeWorkspaceService.__init__)
    assert made in re.sub(r"\s", "", API.read_text())


def _call(name: str, method: object) -> str:
    signature = inspect.signature(method)  # type: ignore[arg-type]  # getmembers cannot say that it is callable
    parameters = [p.replace(annotation=p.empty) for p in signature.parameters.values() if p.name != "self"]
    bare = signature.replace(parameters=parameters, return_annotation=signature.empty)
    return re.sub(r"\s", "", f"{name}{bare}").replace("'", '"')


def _field_names(result: type) -> list[str]:
    """The fields of a result, which is a dataclass or a named tuple."""
    if issubclass(result, tuple):
        return list(result._fields)  # type: ignore[attr-defined]
    return [field.name for field in dataclasses.fields(result)]  # type: ignore[arg-type]  # it is a dataclass


def test_api_lists_every_field() -> None:
    documented = {_code(name)[0]: _code(fields) for name, fields in table(API, "Results")}
    for name, names in documented.items():
        assert names == _field_names(getattr(git_agentos, name)), name
    returned = {**vars(results), **vars(fleet_results), **vars(report_results)}.items()
    assert {name for name, each in returned if dataclasses.is_dataclass(each)} <= documented.keys()


def test_api_lists_every_error() -> None:
    documented = {tuple(_code(name) + _code(kind)) for name, kind, _ in table(API, "Errors")}
    public = [cls for cls in _below(errors.AgentosError) if cls.__module__ == errors.__name__]
    assert documented == {(cls.__name__, cls.kind) for cls in public}


def _below(cls: type[errors.AgentosError]) -> Iterator[type[errors.AgentosError]]:
    for child in cls.__subclasses__():
        yield child
        yield from _below(child)


def _code(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_configuration_lists_every_setting() -> None:
    """The keys and variables that are read are those in configuration.md and git-agentos(1)."""
    groups = "tdd|auto|sync|fleet"
    read = set(re.findall(rf"\bagentos(?:\.(?:{groups}))?\.(?!(?:{groups})\.)\w+", inspect.getsource(config).lower()))
    read |= {key.lower() for key in re.findall(r"^    (agentos\.\S+)", settings.__doc__ or "", re.MULTILINE)}
    described = re.findall(r"^### `(agentos\.\S+)`$", (ROOT / "docs/configuration.md").read_text(), re.MULTILINE)
    manual = re.findall(r"^\.TP\n\\fB(agentos\.\S+)\\fR$", (ROOT / "man/git-agentos.1").read_text(), re.MULTILINE)
    assert sorted(described) == sorted(manual)
    assert {key.lower() for key in described} == read
    variables = set(re.findall(r"\bAGENTOS_[A-Z]\w+", inspect.getsource(config)))
    assert variables == set(re.findall(r"\bAGENTOS_[A-Z]\w+", (ROOT / "docs/configuration.md").read_text()))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    targets = [match["target"] for match in _LINK.finditer(document.read_text())]
    local = [target.partition("#")[0] for target in targets if "://" not in target]
    assert [target for target in local if target and not (document.parent / target).exists()] == []


@pytest.mark.parametrize("name", ["architecture.md", "contributing.md"])
def test_files_that_are_named_exist(name: str) -> None:
    """Paths are those in the project, or the end of one in the package."""
    text = re.sub(r"^```.*?^```$", "", (ROOT / "docs" / name).read_text(), flags=re.DOTALL | re.MULTILINE)
    named = [each for each in _code(text) if re.fullmatch(r"[\w/.-]+\.(?:py|md|toml)", each)]
    modules = [f"/{path.relative_to(ROOT)}" for path in (ROOT / "git_agentos").rglob("*.py")]
    assert named
    for each in named:
        places = (ROOT / each, ROOT / "docs" / each)
        assert any(path.exists() for path in places) or any(path.endswith(f"/{each}") for path in modules), each


def test_names_in_contributing_exist() -> None:
    """Those of functions, constants and classes that one is sent to."""
    text = (ROOT / "docs/contributing.md").read_text().split("## Where to go\n", 1)[1]
    names = {each for each in _code(text) if re.fullmatch(r"\w+", each) and (each.lower() != each or "_" in each)}
    files = [path for folder in ("git_agentos", "tests") for path in (ROOT / folder).rglob("*.py")]
    words = {word for path in files for word in re.findall(r"\w+", path.read_text())}
    assert len(names) > 20
    assert names - words == set()


def test_packages_list_their_modules() -> None:
    """The docstring of a package that lists modules names all of them."""
    for package in sorted((ROOT / "git_agentos").rglob("*/__init__.py")):
        text = ast.get_docstring(ast.parse(package.read_text())) or ""
        modules = {path.stem for path in package.parent.glob("*.py")} - {"__init__", "__main__"}
        if text.count("\n") > 2:
            assert modules - set(re.findall(r"\w+", text)) == set(), package
