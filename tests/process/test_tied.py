"""A program ends with the process that has started it, and says how it ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from git_agentos.process import table, tied
from tests.support.waiting import wait_until

_ENVIRONMENT = {"PATH": os.environ["PATH"]}
_PARENT = """
import sys
from git_agentos.process import tied
tied.run(("sh", "-c", 'echo $$ >"$1"; exec sleep 1000', "sh", sys.argv[1]), {"PATH": sys.argv[2]})
"""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("sh", "-c", "echo out; echo why >&2; exit 3"), (3, b"why\n")),
        (("sh", "-c", "kill -9 $$"), (137, b"")),
        (("there-is-no-such-program",), (127, b"cannot run 'there-is-no-such-program': No such file or directory")),
        (("sh", "-c", 'echo "$SECRET$UNSET" >&2'), (0, b"given\n")),
    ],
)
def test_code_and_stderr(words: tuple[str, ...], expected: tuple[int, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSET", "only in this process")

    assert tied.run(words, _ENVIRONMENT | {"SECRET": "given"}) == expected


def test_only_the_end_of_stderr_is_kept() -> None:
    code, said = tied.run(("sh", "-c", "head -c 100000 /dev/zero >&2; echo end >&2"), _ENVIRONMENT)

    assert code == 0
    assert len(said) == 4096
    assert said.endswith(b"\0end\n")


def _pid_in(path: Path) -> int:
    """The process id that a program writes there, once it has."""
    wait_until(lambda: path.exists() and path.read_text().endswith("\n"), "the program has not begun")
    return int(path.read_text())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent has ended")
def test_it_ends_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    parent = subprocess.Popen([sys.executable, "-c", _PARENT, str(tmp_path / "pid"), os.environ["PATH"]])
    child = _pid_in(tmp_path / "pid")

    parent.kill()
    parent.wait()

    wait_until(lambda: not table.is_alive(child), "the program has not ended")


def test_it_ends_with_an_interrupt_that_no_system_call_sees(tmp_path: Path) -> None:
    """As Ray cancels a task: the exception is raised from another thread."""
    import _thread

    def interrupt() -> None:
        pids.append(_pid_in(tmp_path / "pid"))
        _thread.interrupt_main()

    pids: list[int] = []
    other = threading.Thread(target=interrupt)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        other.start()
        with pytest.raises(KeyboardInterrupt):
            tied.run(("sh", "-c", f"echo $$ >{tmp_path}/pid; exec sleep 1000"), _ENVIRONMENT)
    finally:
        signal.signal(signal.SIGINT, before)
        other.join()

    assert not table.is_alive(pids[0])
