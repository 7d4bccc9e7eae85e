"""What is refused because of what it says, and what is not: code that handles secrets is no secret."""

from __future__ import annotations

import builtins
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from git_agentos.errors import ContextError
from git_agentos.redact import MASK
from git_agentos.secrets import detectors
from git_agentos.tdd.context import secrets
from tests.support.env import PROJECT_ROOT

PACKAGE = PROJECT_ROOT / "git_agentos"
KEY_BODY = "MIIEpAIBAAKCAQEA04up8hoqzS1" + "+APIB0RhjXyObwHQnOzhAk5Bd"

# Built up, so that no scanner takes this file for a leak.
SECRETS = {
    "a token of a cloud provider": [
        "AKIA" + "IOSFODNN7EXAMPLE",
        "aws_access_key_id = " + "AKIA" + "Z7QRSTUVWX234567",
        "AIza" + "SyA-1234567890abcdefghijklmnopqrstu",
        "abc8Q~" + "aB3" * 11,
    ],
    "a token of a code host or package index": [
        "ghp_" + "x" * 36,
        "github_pat_" + "11ABCDEFG0" * 8,
        "glpat-" + "abcdefghij1234567890",
        "npm_" + "aB3" * 12,
        "pypi-" + "AgEIcHlwaS5vcmc" * 5,
    ],
    "a token of a model provider": [
        "sk-ant-api03-" + "a" * 40,
        "sk-proj-" + "aB3_-" * 10,
        "sk-" + "aB3" * 16,
        "hf_" + "aB3" * 12,
        "gsk_" + "aB3" * 14,
        "nvapi-" + "aB3" * 21,
        "lsv2_pt_" + "0a1b" * 8 + "_" + "0a1b2c3d4e",
    ],
    "a token of a service": ["xoxb-" + "123456789012-abcdefGHIJKL", "sk_live_" + "51H8abcdefghijklmno"],
    "a JSON web token": [
        "eyJ" + "hbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxMjM0NTY3ODkwIn0." + "dozjgNryP4J3jVmNHl0w5N_XgL0n3I9"
    ],
    "a private key": [
        f"-----BEGIN RSA PRIVATE KEY-----\n{KEY_BODY}\n-----END RSA PRIVATE KEY-----",
        "  -----BEGIN OPENSSH PRIVATE KEY-----\r\nabc\r\n",
        f'KEY = "-----BEGIN PRIVATE KEY-----\\n{KEY_BODY}\\n"',
        "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nlQ",
    ],
    "a password in a URL": ["postgresql://app:x9-Trombone@db.internal/app", "https://me:pa55@host/x"],
    "the address of a webhook": ["https://hooks.slack.com/services/" + "T0000/B0000/abcdefghij1234"],
    "a value of 'db_password'": ["db_password = 'v8Kq3zT1mX7pLw9sR2dN'"],
    "a value of 'API_KEY'": ["API_KEY=0f9e8d7c6b5a49382716f5e4d3c2b1a0"],
    "a value of 'client_secret'": ['{"client_secret": "q7R-2kd9_sLpX0vbTz8Wm1"}'],
}


@pytest.mark.parametrize(("kind", "secret"), [(kind, each) for kind, them in SECRETS.items() for each in them])
def test_secrets_are_refused_and_not_told(kind: str, secret: str) -> None:
    text = f"first\nsecond\n{secret}\nlast\n"
    with pytest.raises(ContextError) as caught:
        secrets.check("docs/a.md", text)
    assert caught.value.message == f"'docs/a.md' holds a secret: {kind} in line 3"
    said = caught.value.message + (caught.value.hint or "")
    assert not any(word in said for word in secret.split() if len(word) > 15)
    hidden = secrets.mask(text)
    assert MASK in hidden
    assert hidden.startswith("first\nsecond\n")


@pytest.mark.parametrize(
    ("secret", "kind"),
    [
        ("AKC" + "p8abcdefghij", "Artifactory Credentials"),
        ("aws_key = '" + "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzz99KEYabc" + "'", "AWS Access Key"),
        ("0a1b2c3d" * 4 + "-us12", "Mailchimp Access Key"),
        ("SK" + "0a1b2c3d" * 4, "Twilio API Key"),
        ("M" + "a" * 23 + ".abcdef." + "a" * 27, "Discord Bot Token"),
    ],
)
def test_detect_secrets_is_asked_too(secret: str, kind: str) -> None:
    with pytest.raises(ContextError) as caught:
        secrets.check("a.md", f"one\n{secret}\n")
    assert caught.value.message == f"'a.md' holds a secret: what looks like a credential ({kind}) in line 2"


@pytest.mark.parametrize("at", [0, 650, 690, 990, 1400, 5000])
def test_a_long_line_is_looked_at_everywhere(at: int) -> None:
    secret = "SK" + "0a1b2c3d" * 4
    text = "x\n" + "- " * (at // 2) + secret + " -" * 3000
    with pytest.raises(ContextError, match="Twilio API Key\\) in line 2"):
        secrets.check("a.md", text)


@pytest.mark.parametrize(
    "text",
    [
        "password = getpass()",
        "password = 'hunter2'",
        "token: str | None = None",
        "api_key = os.environ['API_KEY']",
        "api_key=settings.providers[0].api_key_v2_longname3",
        "private_key: ed25519.Ed25519PrivateKey",
        "client_secret = config.get_secret_value_2024_01('x')",
        "assert caught.password == 'correct horse battery staple 123'",
        "postgresql://user:password@localhost/db and https://user:pass@host and redis://:<password>@h",
        "postgres://postgres:postgres@db/x and mysql://$USER:$PASSWORD@db and https://{user}:{token}@host",
        "http://127.0.0.1:8080/a@b and ssh://git@github.com:22/x",
        '_START = b"-----BEGIN OPENSSH PRIVATE KEY-----"',
        "the marker -----BEGIN PRIVATE KEY----- begins a key",
        "commit 9f3c1e0b7a6d5c4b3a291807f6e5d4c3b2a19080, sha256:" + "0a1b2c3d" * 8,
        "uuid 123e4567-e89b-12d3-a456-426614174000, 10.0.0.1, 8.8.8.8",
        "integrity sha512-" + "aB3/" * 21 + "==",
        "data:image/png;base64," + "iVBORw0KGgo" * 12,
        "sk-learn-contrib-extensions task-list pypi-server xoxb ghp_ hf_hub_download_with_progress",
        "Signature: 8a477f597d28d172789f06886806bc55",
        "max_tokens: 4096",
        "",
    ],
)
def test_code_and_prose_are_accepted(text: str) -> None:
    secrets.check("a.md", text)
    assert secrets.mask(text) == text


def test_ordinary_code_has_no_secret() -> None:
    """This package, which is about secrets in places, and some modules that handle passwords and keys."""
    import ftplib
    import getpass
    import imaplib
    import netrc
    import ssl
    import urllib.request

    files = [*sorted(PACKAGE.rglob("*.py"))[::8], PACKAGE / "redact.py", PACKAGE / "tdd/context/secrets.py"]
    files += [Path(str(each.__file__)) for each in (ftplib, getpass, imaplib, netrc, ssl, urllib.request)]
    for each in files:
        secrets.check(each.name, each.read_text(encoding="utf-8"))


def test_secrets_are_not_verified_by_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """detect-secrets can call the services that a token is for."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    for text in ("SK" + "0a1b2c3d" * 4, "xoxb-" + "1234567890-abcdef", "0a1b2c3d" * 4 + "-us12"):
        with pytest.raises(ContextError):
            secrets.check("a.md", text)


@pytest.mark.parametrize("piece", ["sk-", "eyJ", "://", "//x/:_authToken=", "aws key ", "password", "\t=", "a1=", "SK"])
def test_hostile_texts_take_no_time(piece: str) -> None:
    """Some detectors would take minutes for a line of 100 KB."""
    list(secrets._find(piece * (100_000 // len(piece))))


@pytest.fixture
def without_detect_secrets(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    detectors.installed.cache_clear()
    real: Callable[..., Any] = builtins.__import__

    def refuse(name: str, *rest: Any) -> Any:
        if name.startswith("detect_secrets"):
            raise ModuleNotFoundError(name)
        return real(name, *rest)

    for name in [each for each in sys.modules if each.startswith("detect_secrets")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", refuse)
    yield
    detectors.installed.cache_clear()


@pytest.mark.usefixtures("without_detect_secrets")
def test_missing_detect_secrets_still_refuses_known_secrets() -> None:
    secrets.check("a.md", "SK" + "0a1b2c3d" * 4)
    with pytest.raises(ContextError, match="a token of a code host"):
        secrets.check("a.md", "ghp_" + "x" * 36)


def test_needed_detectors_exist() -> None:
    assert len(detectors.installed()) == len(detectors.NAMES)
