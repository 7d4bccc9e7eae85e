"""A git command line, parsed: git's own options, configuration given with it, the subcommand and its arguments.

As in git.c, git's own options come before the subcommand, whole and in order; `git-NAME` is `git NAME`. The repository
is not read.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from git_agentos.guard.call import UNKNOWN
from git_agentos.util import git_command_line
from git_agentos.util.named_tuple import NamedTuple

# git's own options that say where it works; another git is asked about the same repository with them.
_WHERE = frozenset({"-C", "--git-dir", "--work-tree", "--namespace", "--bare"})
_FLAGS = frozenset(
    "-p --paginate -P --no-pager --no-replace-objects --no-lazy-fetch --no-optional-locks --no-advice --bare "
    "--literal-pathspecs --no-literal-pathspecs --glob-pathspecs --noglob-pathspecs --icase-pathspecs".split()
)


class ConfigOverride(NamedTuple):
    """One configuration value that comes with a command; `source` is `-c`, or the variable that it is from."""

    key: str
    value: str | None
    source: str

    @property
    def text(self) -> str:
        """The value as it is given to `-c`."""
        return self.key if self.value is None else f"{self.key}={self.value}"


class GitLine(NamedTuple):
    """A git command line.

    `command` is None if git only answers about itself, or has nothing to do; `location_options` are git's own options
    that say in which repository it works (another git is asked with the same); `overrides` is the configuration given
    by `-c` and GIT_CONFIG_*; `exec_path` is the value of `--exec-path=`; `unknown_options` are words before the
    subcommand that git does not know, or that are known only at run time.
    """

    command: str | None
    args: tuple[str, ...]
    location_options: tuple[str, ...] = ()
    overrides: tuple[ConfigOverride, ...] = ()
    exec_path: str | None = None
    unknown_options: tuple[str, ...] = ()

    @property
    def folders(self) -> list[str]:
        """The folders of `-C`, in order."""
        words = iter(self.location_options)
        return [next(words, "") for word in words if word == "-C"]

    def option(self, name: str) -> str | None:
        """The value of `--git-dir` and the like; None if it is not given."""
        found = [word.partition("=")[2] for word in self.location_options if word.startswith(f"{name}=")]
        return found[-1] if found else None


def parse(argv: Sequence[str], environment: Mapping[str, str]) -> GitLine:
    """Parse a git command line; `argv[0]` is the program."""
    given, unknown_options = _of_environment(environment)
    line = git_command_line.parse(argv)
    location_options: list[str] = []
    exec_path = None
    for name, value in line.options:
        if name == "-c" and value is not None:
            given.append(_given(value))
        elif name.startswith("-c"):
            # git does not accept this form; a later version may.
            given.append(_given(name[2:]))
        elif name == "--config-env":
            key, _, variable = (value or "").rpartition("=")
            given.append(ConfigOverride(_canonical(key), environment.get(variable, UNKNOWN), "-c"))
        elif name == "--exec-path" and value is not None:
            exec_path = value
        elif name in _WHERE:
            location_options += git_command_line.words([git_command_line.GlobalOption(name, value)])
        elif name not in git_command_line.VALUED | git_command_line.ANSWERS | _FLAGS:
            unknown_options.append(name)
        if UNKNOWN in (value or "") and name not in ("-c", "--config-env"):
            unknown_options.append(f"{name} {UNKNOWN}")
    return GitLine(line.command, line.args, tuple(location_options), tuple(given), exec_path, tuple(unknown_options))


def _given(text: str) -> ConfigOverride:
    key, has_value, value = text.partition("=")
    return ConfigOverride(_canonical(key), value if has_value else None, "-c")


def expand(alias: str) -> list[str] | None:
    """The words of an alias that is not a shell command; None if it cannot be parsed."""
    try:
        return shlex.split(alias)
    except ValueError:
        return None


def _canonical(key: str) -> str:
    """A configuration key as git compares it: all but the middle in lower case."""
    section, dot, rest = key.partition(".")
    middle, other, last = rest.rpartition(".")
    return f"{section.lower()}{dot}{middle}{other}{last.lower()}"


def _of_environment(environment: Mapping[str, str]) -> tuple[list[ConfigOverride], list[str]]:
    """Configuration in GIT_CONFIG_PARAMETERS (git's own way to its children) and GIT_CONFIG_COUNT, and which of them
    cannot be parsed."""
    found = []
    unknown_options = []
    parameters = environment.get("GIT_CONFIG_PARAMETERS", "")
    try:
        for item in shlex.split(parameters):
            key, has_value, value = item.partition("=")
            found.append(ConfigOverride(_canonical(key), value if has_value else None, "GIT_CONFIG_PARAMETERS"))
    except ValueError:
        unknown_options.append("GIT_CONFIG_PARAMETERS")
    count = environment.get("GIT_CONFIG_COUNT", "").strip() or "0"
    if not count.isascii() or not count.isdigit() or int(count) > 10_000:
        unknown_options.append("GIT_CONFIG_COUNT")
        count = "0"
    for n in range(int(count)):
        key = environment.get(f"GIT_CONFIG_KEY_{n}", UNKNOWN)
        found.append(ConfigOverride(_canonical(key), environment.get(f"GIT_CONFIG_VALUE_{n}"), "GIT_CONFIG_COUNT"))
    return found, unknown_options
