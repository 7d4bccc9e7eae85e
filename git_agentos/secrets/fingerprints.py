"""Names for secrets that do not reveal them.

    <shared state folder>/fingerprint-key      32 random bytes; mode 0600, created when it is first needed

A fingerprint is HMAC-SHA256 of the secret by that key, shortened to 20 hexadecimal digits: the same for the same
secret in every worktree of the repository, wherever it stands and whoever found it, so that one that was allowed stays
allowed. It is shown and kept in configuration: without the key, which is never pushed, nobody can try out passwords
against it.
"""

from __future__ import annotations

import hashlib
import hmac
import os

from git_agentos.errors import DamagedFile, converted_storage_errors
from git_agentos.git.location import Location
from git_agentos.util import directories, files

LENGTH = 20
_NAME = "fingerprint-key"
_SIZE = 32


def key(location: Location) -> bytes:
    """The key of the repository; created where there is none. DamagedFile where it is no key."""
    path = os.path.join(directories.make_own(location.shared_state_dir), _NAME)
    try:
        found = files.read(path, limit=1024)
    except FileNotFoundError:
        with converted_storage_errors():
            files.create(path, os.urandom(_SIZE), mode=0o600)
            found = files.read(path, limit=1024)  # of two processes, the second uses the first one's
    except files.NotRegularError:
        found = b""
    if len(found) != _SIZE:
        hint = "remove it: a new one is created, and what was allowed by its fingerprint has to be allowed again"
        raise DamagedFile(path, "it is no key of fingerprints", hint)
    return found


def of(secret: bytes, known: bytes) -> str:
    """The fingerprint of a secret, by a key that was read."""
    return hmac.new(known, b"git-agentos secret\0" + secret, hashlib.sha256).hexdigest()[:LENGTH]
