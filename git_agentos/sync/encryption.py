"""What is pushed encrypted, and to whom: `agentos.sync.encryptTo` and `agentos.sync.identity`, by age.

The format is that of age-encryption.org/v1, so the program `age` decrypts it as well. It says to whom something is
encrypted, not by whom. Only this module imports pyrage (the extra `sync`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, BinaryIO

from git_agentos import config
from git_agentos.config import ConfigValues
from git_agentos.errors import ConfigurationError, RepositoryError, system_reason
from git_agentos.git import own_configuration
from git_agentos.git.location import Location
from git_agentos.util import files
from git_agentos.util.named_tuple import NamedTuple

_NOT_TAKEN = "nothing is {} by what is set there; if you trust it: git config {} VALUE"
_SSH = ("ssh-ed25519 ", "ssh-rsa ")
_SECRET = "AGE-SECRET-KEY-"  # is not shown, where it is given for a recipient
_MOST_IDENTITY = 1 << 20
_NO_MATCH = "No matching keys found"


class Identity(NamedTuple):
    """The file with the keys that decrypt what others have pushed, and the keys."""

    path: str
    keys: tuple[Any, ...]


class NoKeyFits(RepositoryError):
    """Something is encrypted to other keys than those that are here."""


# -- settings ----------------------------------------------------------------------------------------------------------


def recipients(location: Location, values: ConfigValues) -> tuple[str, ...]:
    """`agentos.sync.encryptTo`, from the user's own configuration: each recipient once, in order. Empty: nothing is
    encrypted. An empty value takes back those before it."""
    if config.SYNC_ENCRYPT_TO.lower() not in values:
        return ()
    hint = _NOT_TAKEN.format("encrypted", config.SYNC_ENCRYPT_TO)
    found: list[str] = []
    for text in own_configuration.values(location, config.SYNC_ENCRYPT_TO, hint):
        found = [*found, " ".join(text.split())] if text.strip() else []
    # The comment of a key of OpenSSH is no part of it.
    return tuple(sorted({" ".join(each.split()[:2]) for each in found}))


def identity(location: Location, values: ConfigValues) -> Identity:
    """The keys in the file that `agentos.sync.identity` names; ConfigurationError where there are none."""
    key = config.SYNC_IDENTITY
    path = None
    if key.lower() in values:
        path = own_configuration.value(location, key, _NOT_TAKEN.format("decrypted", key))
    if path is None:
        raise ConfigurationError(
            f"it is encrypted, and '{key}' is not set", f"git config {key} FILE, the file with your age key"
        )
    full = os.path.expanduser(path)
    if not os.path.isabs(full):
        raise ConfigurationError(f"bad value '{path}' for '{key}'", "give an absolute path, or one that begins with ~/")
    try:
        data = files.read(full, limit=_MOST_IDENTITY, follow=True)
    except OSError as error:
        reason = system_reason(error)
        raise ConfigurationError(f"'{key}': cannot read '{full}': {reason}", "check its path and permissions") from None
    return Identity(full, _keys(full, data))


def _keys(path: str, data: bytes) -> tuple[Any, ...]:
    """The keys in a file: of age, one a line, or one of OpenSSH."""
    pyrage = _library()
    key = config.SYNC_IDENTITY
    text = data.decode("utf-8", "replace")
    try:
        if "PRIVATE KEY-----" in text:
            return (pyrage.ssh.Identity.from_buffer(data),)
        if text.startswith("-----BEGIN AGE ENCRYPTED FILE-----") or data.startswith(b"age-encryption.org/"):
            raise ConfigurationError(
                f"'{key}': the keys in '{path}' are encrypted", "git agentos asks for no passphrase"
            )
        lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
        found = tuple(pyrage.x25519.Identity.from_str(line) for line in lines)
    except pyrage.IdentityError as error:
        # The messages of the library have no part of the key.
        raise ConfigurationError(
            f"'{key}': '{path}' has no key that can be used: {error}",
            "it should have lines AGE-SECRET-KEY-1…, as age-keygen writes, or be a private key of OpenSSH, without a"
            " passphrase",
        ) from None
    if not found:
        raise ConfigurationError(f"'{key}': there is no key in '{path}'", "age-keygen -o FILE makes one")
    return found


# -- encrypting and decrypting -----------------------------------------------------------------------------------------


def check(to: Sequence[str]) -> None:
    """ConfigurationError if one of the recipients is none, or if nothing can be encrypted here."""
    _parsed(to)


def encrypt(source: BinaryIO, target: BinaryIO, to: Sequence[str]) -> None:
    """Encrypt a file, so that each of the recipients can decrypt it."""
    _library().encrypt_io(source, target, _parsed(to))


def decrypt(source: BinaryIO, target: BinaryIO, by: Identity) -> None:
    """Decrypt a file. NoKeyFits if it is not encrypted to any of the keys; RepositoryError if it is damaged: what was
    written to `target` by then is not to be used."""
    pyrage = _library()
    try:
        pyrage.decrypt_io(source, target, by.keys)
    except pyrage.DecryptError as error:
        if str(error) == _NO_MATCH:
            raise NoKeyFits(f"it is encrypted to other keys than those in '{by.path}'") from None
        raise RepositoryError(f"it is damaged, or not encrypted by age: {str(error).lower()}") from None
    except OSError as error:
        if error.errno is not None:
            raise
        raise RepositoryError("it is damaged: its content does not verify") from None


def _parsed(to: Sequence[str]) -> list[Any]:
    pyrage = _library()
    found = []
    for each in to:
        try:
            kind = pyrage.ssh if each.startswith(_SSH) else pyrage.x25519
            found.append(kind.Recipient.from_str(each))
        except pyrage.RecipientError:
            is_secret = each.upper().startswith(_SECRET)
            raise ConfigurationError(
                f"bad value '{f'{_SECRET}…' if is_secret else each}' for '{config.SYNC_ENCRYPT_TO}'",
                "give a recipient of age (age1…, as age-keygen prints), or a public key ssh-ed25519 or ssh-rsa",
            ) from None
    return found


def _library() -> Any:
    try:
        import pyrage
    except ImportError as error:
        raise ConfigurationError(
            f"nothing can be encrypted or decrypted: {error}", "pip install 'git-agentos[sync]' installs pyrage"
        ) from None
    return pyrage
