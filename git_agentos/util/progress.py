"""How far a long operation is: what the domain tells, and whoever shows it takes.

The domain is given a `Progress` (that of an `OpenWorktree` first of all) and never knows whether anything is shown. The
command line shows it on a terminal (`cli/status_line.py`); everything else is given `SILENT`, for which the functions
here do nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sized
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a checkpoint needs neither of these at run time
    from typing import Protocol, TypeVar

    Item = TypeVar("Item")

    class Phase(Protocol):
        """A phase of an operation."""

        def reached(self, done: int, /) -> None:
            """So many things are done."""

        def output(self, line: str, /) -> None:
            """What git has written of its own progress, in place of a number."""

        def ended(self) -> None:
            """The phase is over; it may be told more than once."""

    class Progress(Protocol):
        """Is told which phases an operation has."""

        def begins(self, what: str, total: int | None = None, /) -> Phase:
            """A phase begins, maybe inside of another one. `what` says it as git does (`Saving files`); `total` is the
            number of things, None if that is not known."""


class _SilentPhase:
    def reached(self, done: int, /) -> None:
        pass

    def output(self, line: str, /) -> None:
        pass

    def ended(self) -> None:
        pass


_PHASE = _SilentPhase()


class _Silent:
    def begins(self, what: str, total: int | None = None, /) -> Phase:  # noqa: ARG002 (the protocol's)
        return _PHASE


SILENT: Progress = _Silent()


@contextlib.contextmanager
def phase(progress: Progress, what: str, total: int | None = None) -> Iterator[Phase]:
    """A phase that ends with the context."""
    began = progress.begins(what, total)
    try:
        yield began
    finally:
        began.ended()


def counted(progress: Progress, what: str, items: Iterable[Item], total: int | None = None) -> Iterable[Item]:
    """The items, as a phase of the operation: one is done when the next one is asked for. `total` is their number, by
    default their length if they have one."""
    if progress is SILENT:
        return items
    if total is None and isinstance(items, Sized):
        total = len(items)
    return _counted(progress, what, items, total) if total != 0 else items


def _counted(progress: Progress, what: str, items: Iterable[Item], total: int | None) -> Iterator[Item]:
    with phase(progress, what, total) as began:
        for done, item in enumerate(items):
            began.reached(done)
            yield item
