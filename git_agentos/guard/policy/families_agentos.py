"""`git agentos …` itself: what saves first is allowed; what is the orchestrator's to decide is not an agent's."""

from __future__ import annotations

from git_agentos.guard.policy.options import UNRESOLVED
from git_agentos.guard.policy.reading import OnlyLooks, Reading

# Everything that `git agentos` has before or among its commands' options, and that takes a value.
_VALUED = ("-C", "--as")
_SAFE = ("checkpoint", "restore", "undo", "recover", "pick", "log", "memory", "hook")
_LOOKS = ("status", "db", "help")
_ASKS = {
    "approvals": ("list", "show"),
    "guard": ("check", "status", "harness"),
    "hooks": ("status",),
    "run": ("list", "show", "logs", "diff", "verify"),
    "tdd": ("status", "show", "list", "gate", "graph"),
    "worktree": ("list", "show", "path", "conflicts"),
}
_DOES = {
    ("approvals", "grant"): "approvals",
    ("approvals", "deny"): "approvals",
    ("guard", "enable"): "agentos",
    ("guard", "disable"): "guard-change",
    ("guard", "integrate"): "guard-change",
    ("hooks", "install"): "guard-change",
    ("hooks", "uninstall"): "guard-change",
    ("tdd", "run"): "agentos",
    ("tdd", "resume"): "agentos",
    ("tdd", "approve"): "approvals",
    ("tdd", "abort"): "agentos-change",
    ("worktree", "create"): "agentos",
    ("worktree", "complete"): "agentos",
    ("worktree", "repair"): "agentos",
    ("worktree", "refill"): "agentos",
    ("worktree", "merge"): "agentos-change",
    ("worktree", "archive"): "agentos-change",
    ("worktree", "remove"): "agentos-change",
}


def _agentos(reading: Reading) -> None:
    words = _words(reading.command, reading.args)
    command = words[0] if words else "help"
    which = words[1] if len(words) > 1 else ""
    before = reading.args[: reading.args.index("--")] if "--" in reading.args else reading.args
    if {"-h", "--help", "--version"} & set(before):
        raise OnlyLooks
    if UNRESOLVED in command:
        reading.do("unresolved")
    elif command in _LOOKS or which in _ASKS.get(command, ()) or (command in _ASKS and not which):
        raise OnlyLooks
    elif command in _SAFE:
        reading.do("agentos", command)
    elif command == "doctor":
        if "--fix" not in before:
            raise OnlyLooks
        reading.do("agentos-change", "doctor --fix")
    elif (command, which) == ("guard", "exec"):
        _exec(reading)
    elif (command, which) == ("guard", "integrate") and "--print" in before:
        raise OnlyLooks
    elif (command, which) == ("worktree", "create") and any(word.startswith("--no-g") for word in before):
        reading.do("guard-change", "worktree create --no-guard")
    elif (command, which) == ("worktree", "complete") and any(word.startswith("--pus") for word in before):
        reading.do("push", "worktree complete --push")
    elif (command, which) == ("tdd", "resume") and any(word.startswith("--r") for word in before):
        reading.do("agentos-change", "tdd resume --retry")
    elif command in ("run", "rollback"):
        reading.do("agentos-change", f"{command} {which}".strip())
    elif (command, which) in _DOES:
        reading.do(_DOES[command, which], f"{command} {which}")
    else:
        reading.do("unresolved" if UNRESOLVED in which else "unknown-command", f"agentos {command} {which}".strip())


def _exec(reading: Reading) -> None:
    """`guard exec [OPTION…] -- COMMAND…`: it guards what it runs, all the same."""
    reading.do("agentos", "guard exec")
    if "--" in reading.args:
        command = reading.args[reading.args.index("--") + 1 :]
        if command:
            reading.calls.append(tuple(command))


def _words(command: str, args: tuple[str, ...]) -> list[str]:
    """The words that are no options: the command, its subcommand and their operands."""
    found = [command.removeprefix("agentos-")] if command.startswith("agentos-") else []
    skip = False
    for word in args:
        if word == "--":
            break
        if skip:
            skip = False
        elif word in _VALUED:
            skip = True
        elif not word.startswith("-"):
            found.append(word)
    return found


FAMILIES = {
    "agentos": _agentos,
    "agentos-checkpoint": _agentos,
    "agentos-restore": _agentos,
    "agentos-rollback": _agentos,
    "agentos-tdd": _agentos,
    "agentos-worktree": _agentos,
}
