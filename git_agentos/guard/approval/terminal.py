"""Whether a terminal shows that a person sits at it. An agent can make a terminal of its own (`script`, `expect`, a
detached tmux) and, once it has left its worktree and emptied its environment, looks like nobody.

Two things are asked of a terminal:

* The process that holds its other end is an ancestor of ours. (That of a login often belongs to another user and may
  not be looked into. Then the leader of our session stands for it: an ancestor of ours, and this is its terminal.)
  An orphan has no such ancestor, whichever terminal it has opened.
* That process began before the oldest worktree of an agent here was made, so it is no agent's; or it is below a
  login or a desktop, is a terminal program that the user's service manager runs as a unit of its own, or a multiplexer
  (tmux, screen) with a client in a terminal of which the same is true. These are older than what is decided about.

A login from this machine itself (`ssh localhost`) is none. That a process is an agent's is found elsewhere
(`guard.identity`). Where there is no /proc, only parents are known: one of them has to be a login of the system's.
What cannot be found out counts as no person: then it takes the key.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from git_agentos.git import worktrees
from git_agentos.git.location import Location
from git_agentos.guard import ancestry, identity
from git_agentos.process import table

_PTY_SLAVE = 136  # the major number of /dev/pts/*
_DEPTH = 3  # terminals in multiplexers in terminals
_UTMP = ("/run/utmp", "/var/run/utmp")
_UTMP_RECORD = struct.Struct("<h2xi32s4s32s256s52x")
_SSH = ("sshd", "sshd-session", "sshd-auth", "dropbear")
_LOGINS = frozenset(
    (*_SSH, *"""login agetty getty gdm-session-wor gdm-session-worker sddm-helper lightdm lxdm xdm greetd in.telnetd
    telnetd tailscaled SessionLeader Relay""".split())
)  # fmt: skip
_DESKTOPS = frozenset(
    """gnome-shell gnome-session-binary plasmashell kwin_wayland kwin_x11 ksmserver krunner xfce4-session xfce4-panel
    xfdesktop mate-session mate-panel cinnamon cinnamon-session lxqt-session lxqt-panel lxsession cosmic-session
    cosmic-comp i3 sway Hyprland river niri labwc wayfire weston awesome bspwm openbox dwm xmonad herbstluftwm fluxbox
    icewm""".split()
)
_TERMINALS = frozenset(
    """gnome-terminal-server kgx ptyxis ptyxis-agent konsole yakuake xfce4-terminal mate-terminal lxterminal qterminal
    tilix xterm urxvt urxvtd rxvt st alacritty kitty foot wezterm-gui ghostty code codium cursor zed-editor emacs
    cosmic-term""".split()
)
_MULTIPLEXERS = frozenset(("tmux", "screen"))
# What starts programs at some time, for whoever has asked for it.
_TIMERS = frozenset(("cron", "crond", "atd", "anacron", "fcron"))


class _Times(NamedTuple):
    """When the first worktree of an agent was made (None: there is none), when the repository was, and what is decided
    about; in seconds since the epoch."""

    first_agent: float | None
    repository: float
    since: float


def problem(descriptor: int, location: Location, *, since: float | None = None) -> str | None:
    """Why the terminal `descriptor` does not show a person who may decide in this repository; None where it does.

    `since` is when what is decided about was asked for, in seconds since the epoch.
    """
    if not table.has_proc():
        return _without_proc()
    times = _Times(_first_agent(location), _made(location.common_dir), time.time() if since is None else since)
    return _problem(os.getpid(), os.fstat(descriptor).st_rdev, times, _DEPTH)


def _problem(pid: int, device: int, times: _Times, depth: int) -> str | None:
    """Why the terminal `device` does not show that a person has started the process `pid` in it."""
    above = table.parents(pid)
    first = next((each for each in above if _holds(each, device)), None)
    said = "was started neither by a login nor by a terminal program"
    if first is None:
        stat = _stat(pid)
        first = stat.session if stat is not None else 0
        if stat is None or stat.terminal != device or first not in (pid, *above):
            return "this process was not started in it"
        said = "is all that can be seen of who holds its other end, as in a container"
    chain = [first, *table.parents(first)]
    if times.first_agent is not None and _began(first) < times.first_agent:
        return None
    if times.first_agent is None and not _is_orphaned(chain, times.repository):
        return None
    if _is_grounded(chain, device, times, depth):
        return None
    return f"'{_name(first) or 'process'}' ({first}) {said}"


# -- who holds it ------------------------------------------------------------------------------------------------------


def _holds(pid: int, device: int) -> bool:
    """Whether a process has the other end of a pseudo-terminal open, as far as may be looked into it."""
    if os.major(device) != _PTY_SLAVE:
        return False
    return any(
        _field(f"/proc/{pid}/fdinfo/{number}", "tty-index") == str(os.minor(device))
        for number, path in _open_files(pid)
        if path.endswith("/ptmx")
    )


def _open_files(pid: int) -> Iterator[tuple[str, str]]:
    folder = f"/proc/{pid}/fd"
    with contextlib.suppress(OSError):
        for number in os.listdir(folder):
            with contextlib.suppress(OSError):
                yield number, os.readlink(os.path.join(folder, number))


def _is_grounded(chain: Sequence[int], device: int, times: _Times, depth: int) -> bool:
    """Whether a process is below something that people start: it and those above it are `chain`, in their order."""
    for number, pid in enumerate(chain):
        name = _name(pid)
        if name in _LOGINS and _is_login(chain[number:], times):
            return name not in _SSH or not _is_from_here(device, chain[max(number - 2, 0) : number])
        if name in _MULTIPLEXERS:
            return depth > 0 and any(_problem(*each, times, depth - 1) is None for each in _clients(pid))
        # As root, an agent can place a program by any name.
        if (
            _began(pid) < times.since
            and os.geteuid() != 0
            and (name in _DESKTOPS or (name in _TERMINALS and _is_unit(pid)))
        ):
            return True
    return False


def _is_login(chain: Sequence[int], times: _Times) -> bool:
    """Whether a login is the system's: root's where this user is not, else one that was there before any agent."""
    if os.geteuid() != 0:
        uids = {(_field(f"/proc/{pid}/status", "Uid") or "-") for pid in chain}
        return uids == {"0\t0\t0\t0"}
    topmost = [pid for pid in chain if _name(pid) in _LOGINS][-1]
    return _began(topmost) < (times.first_agent or times.repository)


def _is_orphaned(chain: Sequence[int], repository: float) -> bool:
    """Whether the first process to which these belong was taken in by init, or is started for anybody by a timer. In a
    container init starts programs itself: these are older than what agents work on."""
    topmost = [pid for pid in chain if pid != 1 and not _takes_in(pid)][-1:]
    if not topmost or any(_name(pid) in _TIMERS for pid in chain):
        return True
    if topmost[0] == chain[-1]:
        return False  # started from outside, as by `docker exec`
    return _began(topmost[0]) >= repository


def _takes_in(pid: int) -> bool:
    """Whether a process is the user's service manager, which takes in what is orphaned."""
    return _name(pid) == "systemd"


def _is_unit(pid: int) -> bool:
    """Whether the service manager has started a process by itself: it has a control group of its own."""
    found = _read(f"/proc/{pid}/cgroup").strip().rpartition("/")[2]
    return (found.endswith(".service") and not found.startswith(("run-", "user@"))) or found.startswith("app-")


def _clients(server: int) -> Iterator[tuple[int, int]]:
    """The clients of a multiplexer that show its windows in a terminal, and that terminal. It has these open."""
    devices = set()
    for number, path in _open_files(server):
        if path.startswith("/dev/"):
            with contextlib.suppress(OSError):
                devices.add(os.stat(f"/proc/{server}/fd/{number}").st_rdev)
    for name in os.listdir("/proc"):
        stat = _stat(int(name)) if name.isdigit() and int(name) != server else None
        if stat is None or stat.terminal not in devices or not stat.terminal:
            continue
        same = ancestry.same_program(int(name), server)
        if same and stat.foreground and identity.identify({}, None, int(name)).agent is None:
            yield int(name), stat.terminal


# -- where a login comes from ------------------------------------------------------------------------------------------


def _is_from_here(device: int, below: Sequence[int]) -> bool:
    """Whether somebody has logged in from this machine itself: an agent may be able to (`ssh localhost`). `below` are
    the processes that the login has started, to which it tells the addresses."""
    recorded = _recorded_host(f"pts/{os.minor(device)}")
    if recorded is not None:
        return _is_own_address(recorded)
    for pid in below:
        words = (table.environment(pid) or {}).get("SSH_CONNECTION", "").split()
        if len(words) == 4:
            return words[0] == words[2] or _is_own_address(words[0])
    return True


def _recorded_host(line: str) -> str | None:
    """From where the system says that somebody has logged in at a terminal; None where it keeps no record."""
    for path in _UTMP:
        with contextlib.suppress(OSError), open(path, "rb") as file:
            for record in _UTMP_RECORD.iter_unpack(_whole(file.read())):
                kind, _, at, _, _, host = record
                if kind == 7 and at.rstrip(b"\0") == line.encode():  # USER_PROCESS
                    found: str = host.rstrip(b"\0").decode("utf-8", "replace")
                    return found
    return None


def _whole(data: bytes) -> bytes:
    return data[: len(data) // _UTMP_RECORD.size * _UTMP_RECORD.size]


def _is_own_address(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host.partition(".")[0] in ("", "localhost", socket.gethostname().partition(".")[0])
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as tried:
        tried.bind((str(address), 0))  # only to an address of this machine
        return True
    return address.is_loopback


# -- when, and what a process is ---------------------------------------------------------------------------------------


class _Stat(NamedTuple):
    """Of a process: its session, its terminal (a device, 0 for none), whether it is in front there, and its start."""

    session: int
    terminal: int
    foreground: bool
    start: int


def _stat(pid: int) -> _Stat | None:
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    if len(fields) < 20:
        return None
    device = int(fields[4]) & 0xFFFFFFFF
    major, minor = (device >> 8) & 0xFFF, (device & 0xFF) | ((device >> 12) & 0xFFF00)
    return _Stat(int(fields[3]), os.makedev(major, minor), fields[2] == fields[5], int(fields[19]))


def _began(pid: int) -> float:
    """When a process was started; later than anything where it is gone."""
    stat = _stat(pid)
    if stat is None:
        return float("inf")
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + stat.start / os.sysconf("SC_CLK_TCK")


def _first_agent(location: Location) -> float | None:
    """When the oldest worktree of an agent was made; None where there is none. Nobody can set the time of a change."""
    return min(
        (
            _changed(os.path.join(git_dir, name))
            for git_dir in worktrees.linked_git_dirs(location.common_dir)
            if identity.worktree_agent_id(git_dir) is not None
            for name in ("commondir", "agentos/id")
        ),
        default=None,
    )


def _made(common_dir: str) -> float:
    """When a repository was made, by the oldest of its files."""
    with contextlib.suppress(OSError):
        return min(_changed(os.path.join(common_dir, name)) for name in os.listdir(common_dir))
    return time.time()


def _changed(path: str) -> float:
    try:
        return os.lstat(path).st_ctime
    except OSError:
        return time.time()


def _name(pid: int) -> str:
    """The program of a process: of this user's, by its file, which has to be the system's; of others', by its name."""
    try:
        path = os.readlink(f"/proc/{pid}/exe")
        return os.path.basename(path) if os.stat(path).st_uid == 0 else ""
    except OSError:
        return _read(f"/proc/{pid}/comm").strip().partition("(")[0]


def _field(path: str, name: str) -> str | None:
    for line in _read(path).splitlines():
        if line.startswith(f"{name}:"):
            return line.partition(":")[2].strip()
    return None


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _without_proc() -> str | None:
    """The same where only parents are known, as on macOS."""
    from git_agentos.process import table

    for pid in table.parents(os.getpid()):
        uid, _, program = table.ps(pid, "uid", "comm").strip().partition(" ")
        if uid == "0" and os.path.basename(program.strip()) in _LOGINS:
            return None
    return "no login of the system's is above this process"
