"""Where repositories of tests are made: AGENTOS_TEST_FILE_SYSTEM=apfs makes all of them on such a file system.

It names a kind of `tests.support.filesystems`. What that cannot hold (a symbolic link, a name that is not UTF-8) is
left out where a state is made, by `if_possible`, or the case that needs it is skipped, by `needs_all`.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator

import pytest

KIND = os.environ.get("AGENTOS_TEST_FILE_SYSTEM", "")
# By how many seconds two files are of different age to git, which compares whole seconds.
STEP = 2 if KIND in ("exfat", "coarse") else 1
# What file systems answer to what they cannot hold, and git's words for it.
_REFUSED = (errno.EPERM, errno.EILSEQ, errno.ENOSYS, errno.EOPNOTSUPP)
_SAID = ("invalid or incomplete multibyte", "operation not permitted", "function not implemented")


class _CannotHold(Exception):
    """The file system cannot hold something, for this reason."""


@contextlib.contextmanager
def if_possible() -> Iterator[None]:
    """Leave out the rest of the block where the file system of the tests cannot hold something."""
    with contextlib.suppress(_CannotHold), _refusals():
        yield


@contextlib.contextmanager
def needs_all() -> Iterator[None]:
    """Skip the test where the file system of the tests cannot hold something of what the block makes."""
    try:
        with _refusals():
            yield
    except _CannotHold as reason:
        pytest.skip(f"{KIND} cannot hold it: {reason}")


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if not KIND or error.errno not in _REFUSED:
            raise
        raise _CannotHold(str(error)) from error
    except AssertionError as error:  # git has failed (tests.support.repo)
        if not KIND or not any(words in str(error).lower() for words in _SAID):
            raise
        raise _CannotHold(str(error)) from error
