"""The manual pages are held against the commands: the same commands, options and arguments, both ways.

The pages are man(7) source by hand. What is read from them: the synopsis, one form of a command after the other, each
beginning with `git agentos`; and the tags (`.TP`) of the section OPTIONS, where options are described.
"""

from __future__ import annotations

import ast
import importlib
import itertools
import os
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from git_agentos import __version__
from git_agentos.checkpoint.format import TRIGGERS
from git_agentos.cli import command_tree
from git_agentos.cli.command_tree import Command
from git_agentos.guard.policy import command_table
from tests.support.env import PROJECT_ROOT

MAN = PROJECT_ROOT / "man"
PAGES = sorted(MAN.glob("*.1"))
ROOT_PAGE = MAN / "git-agentos.1"

_OPTION = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*")
_GLYPHS = {"\\(aq": "'", "\\(ga": "`", "\\(ha": "^", "\\(ti": "~", "\\-": "-", "\\e": "\\", "\\&": ""}


def plain(roff: str) -> str:
    """One line of source without fonts and escapes."""
    text = re.sub(r"\\f[BIR]", "", roff)
    return re.sub("|".join(map(re.escape, _GLYPHS)), lambda found: _GLYPHS[found[0]], text)


def sections(page: Path) -> dict[str, list[str]]:
    """The lines of each section, by its heading."""
    found: dict[str, list[str]] = {}
    for line in page.read_text().splitlines():
        if line.startswith(".SH "):
            found[line[4:].strip('"')] = lines = []
        elif found:
            lines.append(line)
    return found


def tags(lines: Iterable[str]) -> Iterator[str]:
    """What is described: the lines after `.TP`."""
    before = ""
    for line in lines:
        if before == ".TP":
            yield plain(line)
        before = line


def synopsis(page: Path) -> list[str]:
    """The forms in the synopsis, each on one line."""
    text = "\n".join(plain(line) for line in sections(page)["SYNOPSIS"] if not line.startswith("."))
    return [" ".join(form.split()) for form in re.split(r"\n(?=git )", text)]


def page_of(command: Command) -> Path:
    return MAN / ("-".join(["git-agentos", *command.path[:1]]) + ".1")


def commands() -> list[Command]:
    return [command for command in command_tree.root().walk() if not command.hidden]


def own_options(command: Command) -> set[str]:
    return {name for option in command.options if not option.common for name in option.names}


def forms(command: Command) -> list[str]:
    """The forms in which a page's synopsis gives one command, without the words that name it."""
    words = " ".join(("git", "agentos", *command.path)) + " "
    below = tuple(each.path[-1] + " " for each in command.subcommands)
    found = [f"{form} ".removeprefix(words) for form in synopsis(page_of(command)) if f"{form} ".startswith(words)]
    return [form for form in found if not form.startswith(below)] if below else found


def shape(arguments: str) -> list[tuple[bool, bool]]:
    """Of each argument in a form: whether it is required, and whether it may be repeated."""
    options = r"\[[^][]*(?<![\w-])-{1,2}[A-Za-z][^][]*\](?:\.\.\.)?|\[--\]|--[a-z][\w-]* <[^<>]+>"
    without_options = re.sub(options, "", arguments)
    found = re.findall(r"(\[)?<[^<>]+>(?::<[^<>]+>)?(\.\.\.)?\]?(\.\.\.)?", without_options)
    return [(not optional, bool(inside or outside)) for optional, inside, outside in found]


def test_every_command_has_its_page_and_every_page_its_command() -> None:
    assert {page.name for page in PAGES} == {page_of(command).name for command in commands()}


@pytest.mark.parametrize("command", commands(), ids=lambda command: "-".join(command.path) or "root")
def test_synopsis_has_the_options_and_arguments(command: Command) -> None:
    given = forms(command)
    if command.path and command.subcommands and not command.runs_alone:
        assert given == []
        return
    assert given, f"no synopsis of {command.path}"
    if not command.path:
        every = {name for option in command.options for name in option.names}
        assert {name for form in given for name in _OPTION.findall(form)} == every
        return
    # One spelling of each option is enough in a synopsis.
    named = {name for form in given for name in _OPTION.findall(form)}
    assert named <= own_options(command)
    assert [option.names for option in command.options if not option.common and not named & {*option.names}] == []
    expected = [(argument.required, "..." in argument.usage) for argument in command.arguments]
    shown = max((shape(form) for form in given), key=len)
    assert [repeated for _, repeated in shown] == [repeated for _, repeated in expected]
    if len(given) == 1:
        assert shown == expected


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_options_are_described(page: Path) -> None:
    described = {name for tag in tags(sections(page)["OPTIONS"]) for name in _OPTION.findall(tag)}
    taken = {
        name
        for command in commands()
        if page_of(command) == page
        for option in command.options
        for name in option.names
    }
    assert described == taken


def test_subcommands_are_described() -> None:
    for command in commands():
        below = [each.path[-1] for each in command.subcommands if not each.hidden]
        if len(command.path) == 1 and below:
            leaves = (each for each in command.walk() if each.path != command.path and not each.hidden)
            named = [" ".join(each.path[1:]) for each in leaves if not each.subcommands]
            assert list(tags(sections(page_of(command))["SUBCOMMANDS"])) == named
        elif not command.path:
            listed = list(tags(sections(ROOT_PAGE)["COMMANDS"]))
            assert sorted(listed) == sorted(f"git-agentos-{name}(1)" for name in below)


def test_findings_are_described() -> None:
    """Every code that `doctor` can report is in its page."""
    reported: set[str] = set()
    # Which argument is the code, of what makes a finding.
    makers = {"Finding": 0, "fixable": 0, "repairable": 1}
    for path in (PROJECT_ROOT / "git_agentos").rglob("*.py"):
        source = path.read_text()
        if not any(f"{maker}(" in source for maker in makers) or "gate" in path.parts:  # its findings are others
            continue
        calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
        named = [(call.func.id, call.args) for call in calls if isinstance(call.func, ast.Name)]
        codes = [arguments[makers[name]] for name, arguments in named if name in makers]
        reported |= {str(code.value) for code in codes if isinstance(code, ast.Constant)}
        names = {code.id for code in codes if isinstance(code, ast.Name) and code.id.isupper()}
        if names:
            module = importlib.import_module(".".join(path.relative_to(PROJECT_ROOT).with_suffix("").parts))
            reported |= {str(getattr(module, name)) for name in names}
    assert set(tags(sections(MAN / "git-agentos-doctor.1")["FINDINGS"])) == reported


def examples(page: Path) -> Iterator[str]:
    """The commands of a page's examples, as one would type them."""
    text = "\n".join(plain(line).replace("\\(rs", "\\") for line in sections(page).get("EXAMPLES", ()))
    for command in re.findall(r"^\$ ((?:.*\\\n)*.*)", text, re.MULTILINE):
        yield command.replace("\\\n", " ")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples_are_commands_that_there_are(page: Path) -> None:
    """Their names and options are those of the commands."""
    found = list(examples(page))
    assert found
    known = command_table.table()
    for example in found:
        lexer = shlex.shlex(example, posix=True, punctuation_chars="|&;<>()")
        lexer.whitespace_split = True
        words = list(lexer)
        assert words, example
        for start in [n for n, word in enumerate(words) if words[n : n + 2] == ["git", "agentos"]]:
            ours = list(itertools.takewhile(lambda word: not set(word) <= set("|&;<>()"), words[start + 2 :]))
            request = command_table.parse(ours)
            if request is None:  # --help, --version
                continue
            assert request.path in known, example
            command = known[request.path]
            usual = command_table.COMMON_VALUED | command_table.COMMON_FLAGS
            assert request.options <= command.valued | command.flags | usual, example


def test_common_options_are_the_same_everywhere() -> None:
    texts = {page.read_text().split('.SS "Common options"\n', 1)[1].split(".SH ", 1)[0] for page in PAGES}
    assert len(texts) == 1


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page_is_complete(page: Path) -> None:
    text = page.read_text()
    assert f'"git\\-agentos {__version__}"' in text.splitlines()[0]
    found = sections(page)
    assert plain(found["NAME"][0]).startswith(f"{page.stem} - ")
    assert [
        name
        for name in ("SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "EXAMPLES", "SEE ALSO")
        if name not in found
    ] == []
    referred = set(re.findall(r"git-agentos[\w-]*(?=\(1\))", plain(text)))
    assert referred <= {each.stem for each in PAGES} - {page.stem} | ({page.stem} if page == ROOT_PAGE else set())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
@pytest.mark.parametrize("formatter", ["man", "groff", "mandoc"])
def test_page_renders_without_a_warning(page: Path, formatter: str) -> None:
    if shutil.which(formatter) is None:
        pytest.skip(f"{formatter} is not installed")
    lines = {
        "man": ["man", "--warnings=w", "-E", "UTF-8", "-l", str(page)],
        "groff": ["groff", "-ww", "-man", "-Tutf8", "-P-c", str(page)],
        "mandoc": ["mandoc", "-T", "lint", "-W", "warning", str(page)],
    }
    env = os.environ | {"MANWIDTH": "80", "MANPAGER": "cat", "PAGER": "cat"}
    done = subprocess.run(lines[formatter], env=env, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    if formatter == "mandoc":
        assert done.stdout == ""
    else:
        assert page.stem in done.stdout
        assert not re.search(r"\\f[BIR]|\\\(", done.stdout)


def test_documents_that_pages_name_are_installed() -> None:
    installed = tomllib.loads((MAN.parent / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    named = set()
    for page in PAGES:
        text = plain(page.read_text())
        assert not re.search(r"(?<!/)\bdocs/(?!lld|plan)[\w-]+\.md", text), page.name
        named |= set(re.findall(r"share/doc/git-agentos/[\w-]+\.md", text))
    assert named == {place for place in installed["shared-data"].values() if place.endswith(".md")}
    assert all((MAN.parent / source).exists() for source in installed["shared-data"])


def test_the_manual_lists_every_trigger() -> None:
    text = (MAN / "git-agentos-checkpoint.1").read_text()
    assert [each for each in TRIGGERS if f"\\fB{each}\\fR" not in text] == []
