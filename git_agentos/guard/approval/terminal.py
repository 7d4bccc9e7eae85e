"""Whether a person uses a terminal. An agent can create a terminal (`script`, `expect`, a detached tmux), and looks
like a person once it has left its worktree and emptied its environment.

Two things have to hold:

* The process at the other end of the terminal is our ancestor. (That of a login often belongs to another user
  and cannot be examined. Then the leader of our session is examined in its place: our ancestor with this terminal.) An
  orphan has no such ancestor, whichever terminal it has opened.
* That process is older than the oldest agent's worktree here, so it is not an agent's; or it is below a login or a
  desktop, is a terminal program that the user's service manager runs as its own unit, or a multiplexer (tmux, screen)
  with a client in a terminal for which the same holds. These are older than the request that is decided about.

A login from this machine (`ssh localhost`) does not count. Whether a process is an agent's is decided elsewhere
(`guard.identity`). Where there is no /proc, only parents are known: one of them has to be a login of the system. Where
something cannot be known, there is no person: then a key is needed.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
import struct
import time
from collections.abc import Iterator, Sequence

from git_agentos.git import worktrees
from git_agentos.git.location import Location
from git_agentos.guard import ancestry, identity
from git_agentos.process import ps, table
from git_agentos.util.named_tuple import NamedTuple

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
# Programs that start other programs at a given time, for any user.
_TIMERS = frozenset(("cron", "crond", "atd", "anacron", "fcron"))


class _Times(NamedTuple):
    """The times of the first agent's worktree (None: there is none), of the repository, and of the request that is
    decided about; in seconds since the epoch."""

    first_agent: float | None
    repository: float
    since: float


def problem(descriptor: int, location: Location, *, since: float | None = None) -> str | None:
    """Why the terminal `descriptor` is not known to be used by a person who may decide in this repository; None where
    it is.

    `since` is the time of the request that is decided about, in seconds since the epoch.
    """
    if not table.has_proc():
        return _without_proc()
    times = _Times(_first_agent(location), _created(location.common_dir), time.time() if since is None else since)
    return _problem(os.getpid(), os.fstat(descriptor).st_rdev, times, _DEPTH)


def _problem(pid: int, device: int, times: _Times, depth: int) -> str | None:
    """Why it is not known that a person has started the process `pid` in the terminal `device`."""
    above = table.parents(pid)
    first = next((each for each in above if _holds(each, device)), None)
    reason = "was started neither by a login nor by a terminal program"
    if first is None:
        stat = _stat(pid)
        first = stat.session if stat is not None else 0
        if stat is None or stat.terminal != device or first not in (pid, *above):
            return "this process was not started in it"
        reason = "is all that is known about its other end, as in a container"
    chain = [first, *table.parents(first)]
    if times.first_agent is not None and _start_time(first) < times.first_agent:
        return None
    if times.first_agent is None and not _is_orphaned(chain, times.repository):
        return None
    if _is_started_by_person(chain, device, times, depth):
        return None
    return f"'{_name(first) or 'process'}' ({first}) {reason}"


# -- who holds it ------------------------------------------------------------------------------------------------------


def _holds(pid: int, device: int) -> bool:
    """Whether a process has the other end of a pseudo-terminal open, as far as that can be examined."""
    if os.major(device) != _PTY_SLAVE:
        return False
    return any(
        table.field(pid, f"fdinfo/{number}", "tty-index") == str(os.minor(device))
        for number, path in table.open_files(pid)
        if path.endswith("/ptmx")
    )


def _is_started_by_person(chain: Sequence[int], device: int, times: _Times, depth: int) -> bool:
    """Whether a process is below a program that people start; `chain` are the process and those above it."""
    for number, pid in enumerate(chain):
        name = _name(pid)
        if name in _LOGINS and _is_login(chain[number:], times):
            return name not in _SSH or not _is_from_this_machine(device, chain[max(number - 2, 0) : number])
        if name in _MULTIPLEXERS:
            return depth > 0 and any(_problem(*each, times, depth - 1) is None for each in _clients(pid))
        # As root, an agent can install a program with any name.
        if (
            _start_time(pid) < times.since
            and os.geteuid() != 0
            and (name in _DESKTOPS or (name in _TERMINALS and _is_unit(pid)))
        ):
            return True
    return False


def _is_login(chain: Sequence[int], times: _Times) -> bool:
    """Whether a login is the system's: root's where this user is not root, else one that is older than any agent."""
    if os.geteuid() != 0:
        uids = {(table.field(pid, "status", "Uid") or "-") for pid in chain}
        return uids == {"0\t0\t0\t0"}
    topmost = [pid for pid in chain if _name(pid) in _LOGINS][-1]
    return _start_time(topmost) < (times.first_agent or times.repository)


def _is_orphaned(chain: Sequence[int], repository: float) -> bool:
    """Whether the topmost of these processes was adopted by init, or is started by a timer for any user. In a container
    init starts programs itself: these are older than the repository."""
    topmost = [pid for pid in chain if pid != 1 and not _adopts_orphans(pid)][-1:]
    if not topmost or any(_name(pid) in _TIMERS for pid in chain):
        return True
    if topmost[0] == chain[-1]:
        return False  # started from outside, as by `docker exec`
    return _start_time(topmost[0]) >= repository


def _adopts_orphans(pid: int) -> bool:
    """Whether a process is the user's service manager, which adopts orphans."""
    return _name(pid) == "systemd"


def _is_unit(pid: int) -> bool:
    """Whether the service manager has started a process as a unit: it has a control group of its own."""
    found = os.fsdecode(table.read(pid, "cgroup") or b"").strip().rpartition("/")[2]
    return (found.endswith(".service") and not found.startswith(("run-", "user@"))) or found.startswith("app-")


def _clients(server: int) -> Iterator[tuple[int, int]]:
    """The clients of a multiplexer, each with the terminal in which it shows windows; the server has these open."""
    devices = set()
    for number, path in table.open_files(server):
        if path.startswith("/dev/"):
            with contextlib.suppress(OSError):
                devices.add(os.stat(f"/proc/{server}/fd/{number}").st_rdev)
    for pid in table.pids():
        stat = _stat(pid) if pid != server else None
        if stat is None or stat.terminal not in devices or not stat.terminal:
            continue
        is_same = ancestry.same_program(pid, server)
        if is_same and stat.foreground and identity.identify({}, None, pid).agent is None:
            yield pid, stat.terminal


# -- where a login comes from ------------------------------------------------------------------------------------------


def _is_from_this_machine(device: int, below: Sequence[int]) -> bool:
    """Whether a login is from this machine, as an agent may do it (`ssh localhost`). `below` are the processes that the
    login has started: their environment has the addresses."""
    recorded = _recorded_host(f"pts/{os.minor(device)}")
    if recorded is not None:
        return _is_own_address(recorded)
    for pid in below:
        words = (table.environment(pid) or {}).get("SSH_CONNECTION", "").split()
        if len(words) == 4:
            return words[0] == words[2] or _is_own_address(words[0])
    return True


def _recorded_host(line: str) -> str | None:
    """The host from which somebody has logged in at a terminal; None where the system has no record."""
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
    """The session of a process, its terminal (a device, 0 for none), whether it is in the foreground, and its start."""

    session: int
    terminal: int
    foreground: bool
    start: int


def _stat(pid: int) -> _Stat | None:
    fields = table.stat_fields(pid)
    if fields is None:
        return None
    device = int(fields[4]) & 0xFFFFFFFF
    major, minor = (device >> 8) & 0xFFF, (device & 0xFF) | ((device >> 12) & 0xFFF00)
    return _Stat(int(fields[3]), os.makedev(major, minor), fields[2] == fields[5], int(fields[19]))


def _start_time(pid: int) -> float:
    """When a process was started; infinity where it is gone."""
    stat = _stat(pid)
    if stat is None:
        return float("inf")
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + stat.start / os.sysconf("SC_CLK_TCK")


def _first_agent(location: Location) -> float | None:
    """When the oldest agent's worktree was created; None where there is none. No program can set the time of a
    change."""
    return min(
        (
            _changed(os.path.join(git_dir, name))
            for git_dir in worktrees.linked_git_dirs(location.common_dir)
            if identity.worktree_agent_id(git_dir) is not None
            for name in ("commondir", "agentos/id")
        ),
        default=None,
    )


def _created(common_dir: str) -> float:
    """When a repository was created, by the oldest of its files."""
    with contextlib.suppress(OSError):
        return min(_changed(os.path.join(common_dir, name)) for name in os.listdir(common_dir))
    return time.time()


def _changed(path: str) -> float:
    try:
        return os.lstat(path).st_ctime
    except OSError:
        return time.time()


def _name(pid: int) -> str:
    """The program of a process: by its file, which has to be the system's, or by its name where that is another
    user's."""
    try:
        path = os.readlink(f"/proc/{pid}/exe")
        return os.path.basename(path) if os.stat(path).st_uid == 0 else ""
    except OSError:
        return table.name(pid).partition("(")[0]


def _without_proc() -> str | None:
    """`problem` where only parents are known, as on macOS."""
    rows = {row.pid: row for row in ps.rows()}
    above = [rows[pid] for pid in table.parents(os.getpid()) if pid in rows]
    if any(row.uid == 0 and os.path.basename(row.name) in _LOGINS for row in above):
        return None
    return "there is no login of the system above this process"
