"""Configuration that an agent's client puts into the environment of every git it starts, by GIT_CONFIG_COUNT.

Gemini CLI and Copilot CLI set `core.fsmonitor` (and the first `core.hooksPath`) to nothing, since both make git run
programs of the repository. That switches the guard off as well, so the shim takes these pairs out and git runs with
the guard's. A command that sets them itself is judged as one that goes around the guard: what differs is which process
was started with them first.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from git_agentos.guard import ancestry
from git_agentos.process import supervisor, table
from git_agentos.util.values import parse_boolean

# The guard is called by the first two, and the third says in which form.
_OF_GUARD = frozenset({"core.fsmonitor", "core.hookspath", "core.fsmonitorhookversion"})
_COUNT, _KEY, _VALUE = "GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_"
_MOST = 10_000
# Programs that start what they are given; an agent's client is none of them.
_STARTERS = frozenset(
    "sh bash dash zsh ksh mksh ash fish busybox env nice nohup setsid timeout stdbuf script xargs find sudo bwrap uv "
    "npm npx npm-cli.js npx-cli.js pnpm pnpx yarn bunx".split()
)


def without_guard_pairs(environment: Mapping[str, str]) -> dict[str, str] | None:
    """`environment` without the pairs of GIT_CONFIG_COUNT that concern the guard, the others numbered anew; None where
    there is no such pair, or they cannot be read."""
    pairs = _pairs(environment)
    if pairs is None or not any(_is_of_guard(key) for key, _ in pairs):
        return None
    rest = {name: text for name, text in environment.items() if not name.startswith((_COUNT, _KEY, _VALUE))}
    kept = [(key, value) for key, value in pairs if not _is_of_guard(key)]
    rest[_COUNT] = str(len(kept))
    for number, (key, value) in enumerate(kept):
        rest[f"{_KEY}{number}"], rest[f"{_VALUE}{number}"] = key, value
    return rest


def are_the_clients(pid: int, environment: Mapping[str, str]) -> bool:
    """Whether the guard's pairs in `environment`, with which the process `pid` is about to become git, were set by the
    agent's client and not by a command that it runs. False where `guard exec` is not above, or nothing can be seen."""
    chain = _below_guard_exec(pid)
    started_with = [_guard_pairs(table.environment(each) or {}) for each in chain]
    mine = _guard_pairs(environment)
    if not chain or not mine or any(found not in ((), mine) for found in started_with):
        return False
    first = next((at for at, found in enumerate(started_with) if found), len(chain) - 1)
    if first == len(chain) - 1:
        # The shell has become git, or the client has started git itself: what the command set looks the same then.
        return first > 0 and _is_client(chain[:first]) and _only_switches_off(environment, mine)
    return first == 0 or _is_client(chain[:first])


def _below_guard_exec(pid: int) -> list[int]:
    """The processes from the one that the outermost `guard exec` has started to `pid`; empty where there is none."""
    found = [pid, *table.parents(pid)]
    marked = [at for at, each in enumerate(found) if ancestry.MARKER in (table.environment(each) or {})]
    if not marked:
        return []
    chain = found[: marked[-1] + 1]
    # In a sandbox the supervisor is not to be seen.
    return list(reversed(chain[:-1] if supervisor.is_supervisor(table.argv(chain[-1])) else chain))


def _is_client(chain: list[int]) -> bool:
    """Whether the last process of `chain` is the agent's client: the outermost one that is not there to start another
    one, or one that this has started without a shell (a launcher of npm starts the client's own program)."""
    at = next((at for at, each in enumerate(chain) if not _is_starter(each)), None)
    return at is not None and all(_program(each) and not _is_starter(each) for each in chain[at:])


def _is_starter(pid: int) -> bool:
    names = (_program(pid), *table.argv(pid)[:2])
    return any(os.path.basename(name) in _STARTERS for name in names)


def _program(pid: int) -> str:
    """The file that a process was started from; empty where that is not to be seen."""
    return table.link(pid, "exe") or ""


def _only_switches_off(environment: Mapping[str, str], pairs: tuple[tuple[str, str], ...]) -> bool:
    """Whether pairs lead to no other hooks, and are no shorter list over a longer one."""
    count = int(environment[_COUNT])
    leads = [value for key, value in pairs if key != "core.fsmonitorhookversion"]
    return f"{_KEY}{count}" not in environment and all(parse_boolean(value) is False for value in leads)


def _guard_pairs(environment: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple((key.lower(), value) for key, value in _pairs(environment) or () if _is_of_guard(key))


def _is_of_guard(key: str) -> bool:
    return key.lower() in _OF_GUARD


def _pairs(environment: Mapping[str, str]) -> list[tuple[str, str]] | None:
    """The pairs in their order; None where one is missing, which git refuses."""
    text = environment.get(_COUNT, "").strip() or "0"
    if not text.isascii() or not text.isdigit() or int(text) > _MOST:
        return None
    names = [(f"{_KEY}{number}", f"{_VALUE}{number}") for number in range(int(text))]
    if any(key not in environment or value not in environment for key, value in names):
        return None
    return [(environment[key], environment[value]) for key, value in names]
