"""The configuration that a harness puts into the environment of every git that it starts, by GIT_CONFIG_COUNT.

Gemini CLI and Copilot CLI set `core.fsmonitor` to nothing, since it makes git run programs of the repository (Gemini:
`core.hooksPath` too, and GIT_CONFIG_GLOBAL=/dev/null). That switches the guard off as well. Two layers undo it:

* The shim removes these pairs, and git runs with the guard's settings. A command that sets such a pair itself counts as
  one that avoids the guard. The difference is which process was started with the pairs first.
* The harness's hook may replace the command. So each command gets a prefix that restores git's environment as it was
  when the harness was started. Then the layers below act again, also in scripts, and git reads the user's configuration
  with its policy. An agent is not judged by these variables, since it did not set them.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping

from git_agentos.git import configuration
from git_agentos.guard import ancestry
from git_agentos.process import supervisor, table
from git_agentos.util.values import parse_boolean

# git calls the guard by the first two; the third one is the form of the call.
_OF_GUARD = frozenset({"core.fsmonitor", "core.hookspath", "core.fsmonitorhookversion"})
_COUNT, _KEY, _VALUE = "GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_"
_MAX_PAIRS = 10_000
# What the prefix of a command restores, and how it ends.
_VARIABLES = ("GIT_CONFIG_COUNT", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")
_END = ": git-agentos; "
# Programs that start other programs; a harness is none of them.
_STARTERS = frozenset(
    "sh bash dash zsh ksh mksh ash fish busybox env nice nohup setsid timeout stdbuf script xargs find sudo bwrap uv "
    "npm npx npm-cli.js npx-cli.js pnpm pnpx yarn bunx".split()
)


# -- the shim ----------------------------------------------------------------------------------------------------------


def without_guard_pairs(environment: Mapping[str, str]) -> dict[str, str] | None:
    """`environment` without the pairs of GIT_CONFIG_COUNT that concern the guard, the others renumbered; None where
    there is no such pair, or they cannot be read."""
    pairs = _pairs(environment)
    if pairs is None or not any(_is_of_guard(key) for key, _ in pairs):
        return None
    rest = {name: text for name, text in environment.items() if not name.startswith((_COUNT, _KEY, _VALUE))}
    return rest | configuration.as_variables([pair for pair in pairs if not _is_of_guard(pair[0])])


def set_by_harness(pid: int, environment: Mapping[str, str]) -> bool:
    """Whether the harness has set the guard's pairs in `environment`, with which the process `pid` is about to become
    git, and not a command that the harness runs. False outside of `guard exec`, and where it cannot be known."""
    chain = _below_guard_exec(pid)
    pairs = _guard_pairs(environment)
    started_with = [_guard_pairs(each) for each in table.environments(chain)]
    if not chain or not pairs or any(each not in ((), pairs) for each in started_with):
        return False
    first = next((index for index, each in enumerate(started_with) if each), len(chain) - 1)
    if first == len(chain) - 1:
        # The shell has become git, or the harness has started git: pairs that a command sets would look the same.
        return first > 0 and _is_harness(chain[:first]) and _only_switches_off(environment, pairs)
    return first == 0 or _is_harness(chain[:first])


def _below_guard_exec(pid: int) -> list[int]:
    """The processes from the one that the outermost `guard exec` has started down to `pid`; empty where there is
    none."""
    pids = [pid, *table.parents(pid)]
    marked = [index for index, each in enumerate(table.environments(pids)) if ancestry.MARKER in each]
    if not marked:
        return []
    chain = pids[: marked[-1] + 1]
    # In a sandbox the supervisor is not visible.
    return list(reversed(chain[:-1] if supervisor.is_supervisor(table.argv(chain[-1])) else chain))


def _is_harness(chain: list[int]) -> bool:
    """Whether the last process of `chain` is the harness: the outermost process that does not just start another one,
    or one that this has started without a shell (a launcher of npm starts the harness's own program)."""
    first = next((index for index, each in enumerate(chain) if not _is_starter(each)), None)
    return first is not None and all(_program(each) and not _is_starter(each) for each in chain[first:])


def _is_starter(pid: int) -> bool:
    names = (_program(pid), *table.argv(pid)[:2])
    return any(os.path.basename(name) in _STARTERS for name in names)


def _program(pid: int) -> str:
    """The program file of a process; empty where it cannot be known."""
    return table.link(pid, "exe") or ""


def _only_switches_off(environment: Mapping[str, str], pairs: tuple[tuple[str, str], ...]) -> bool:
    """Whether the pairs lead to no other hooks, and no pairs of a longer list are hidden behind them."""
    count = int(environment[_COUNT])
    values = [value for key, value in pairs if key != "core.fsmonitorhookversion"]
    return f"{_KEY}{count}" not in environment and all(parse_boolean(value) is False for value in values)


def _guard_pairs(environment: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple((key.lower(), value) for key, value in _pairs(environment) or () if _is_of_guard(key))


def _is_of_guard(key: str) -> bool:
    return key.lower() in _OF_GUARD


def _pairs(environment: Mapping[str, str]) -> list[tuple[str, str]] | None:
    """The pairs in their order; None where one is missing, which git refuses."""
    text = environment.get(_COUNT, "").strip() or "0"
    if not text.isascii() or not text.isdigit() or int(text) > _MAX_PAIRS:
        return None
    names = [(f"{_KEY}{number}", f"{_VALUE}{number}") for number in range(int(text))]
    if any(key not in environment or value not in environment for key, value in names):
        return None
    return [(environment[key], environment[value]) for key, value in names]


# -- the hook of a harness ---------------------------------------------------------------------------------------------


def inherited(environment: Mapping[str, str]) -> dict[str, str]:
    """The hook's `environment` without what the harness has added to it."""
    rest = {key: value for key, value in environment.items() if not key.startswith((_KEY, _VALUE))}
    rest.pop(_COUNT, None)
    if rest.get("GIT_CONFIG_GLOBAL") == os.devnull:
        for name in _VARIABLES:
            rest.pop(name, None)
    return rest


def prefixed(command: str, environment: Mapping[str, str]) -> str:
    """`command` with the prefix that makes the guard's layers act; `environment` is the hook's."""
    rest = inherited(environment)
    values = [f"{name}={shlex.quote(rest[name])}" for name in _VARIABLES if name in rest]
    # The harness's configuration also keeps git from starting an editor, in which the command would hang.
    values += [] if "GIT_EDITOR" in rest else ["GIT_EDITOR=:"]
    unset = [name for name in _VARIABLES if name not in rest]
    exported = f"export {' '.join(values)}; " if values else ""
    return f"unset {' '.join(unset)}; {exported}{_END}{command}"


def original(command: str) -> str:
    """`command` without the prefix that `prefixed` adds."""
    before, separator, after = command.partition(_END)
    return after if separator and before.startswith("unset GIT_CONFIG_COUNT") else command
