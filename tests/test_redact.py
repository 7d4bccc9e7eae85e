"""What is a secret and what is not: one of each kind, and texts that only look like one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from git_agentos.redact import MASK, Credential, credentials, redact, redact_value

HEX = "9f3c1e0b7a6d5c4b3a291807f6e5d4c3b2a19080"
KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\nAAAA\n-----END OPENSSH PRIVATE KEY-----"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9"

# Built up, so that no scanner takes this file for a leak.
TOKENS = [
    "AKIA" + "IOSFODNN7EXAMPLE",
    "ASIA" + "IOSFODNN7EXAMPLE",
    "AIza" + "SyA-1234567890abcdefghijklmnopqrstu",
    "ya29." + "a0AfH6SMBx1234567890abcdef",
    "GOCSPX-" + "abcdefghijklmnopqrstuvwxyz12",
    "ghp_" + "aB3" * 12,
    "gho_" + "aB3" * 12,
    "ghs_" + "aB3" * 12,
    "github_pat_" + "11ABCDEFG0" * 8,
    "glpat-" + "abcdefghij1234567890",
    "npm_" + "aB3" * 12,
    "pypi-" + "AgEIcHlwaS5vcmc" * 5,
    "xoxb-" + "123456789012-abcdefGHIJKL",
    "sk_live_" + "51H8abcdefghijklmno",
    "rk_test_" + "51H8abcdefghijklmno",
    "sk-" + "aB3" * 16,
    "sk-proj-" + "aB3_-" * 10,
    "sk-ant-api03-" + "aB3_-" * 10,
    "sk-or-v1-" + "0a1b" * 16,
    "hf_" + "aB3" * 12,
    "gsk_" + "aB3" * 14,
    "SG." + "aB3" * 7 + "." + "aB3" * 14,
    "dckr_pat_" + "aB3" * 9,
    "hvs." + "aB3" * 9,
    "AQ.Ab8" + "aB3_-" * 9,
    "abc8Q~" + "aB3" * 11,
    "aB3aB3aB3aB3aB" + ".atlasv1." + "aB3" * 22,
    "GR1348941" + "abcdefghij1234567890",
    "nvapi-" + "aB3" * 21,
    "tgp_v1_" + "aB3" * 14 + "a",
    "lsv2_pt_" + "0a1b" * 8 + "_" + "0a1b2c3d4e",
    "pcsk_" + "aB3aB3" + "_" + "aB3" * 20,
    "glsa_" + "aB3" * 11 + "_" + "0a1b2c3d",
    "shpat_" + "0a1b" * 8,
    "sbp_" + "0a1b" * 10,
    "dp.pt." + "aB3" * 14,
    JWT,
]  # fmt: skip


@pytest.mark.parametrize("token", TOKENS)
@pytest.mark.parametrize(
    "around", ["{}", "pushed with {} to origin", "'{}',", "x-{}/a.txt", "TOKEN_{}", "a\n{}\nb", "({})"]
)
def test_tokens(token: str, around: str) -> None:
    assert redact(around.format(token)) == (around.format(MASK), 1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"key:\n{KEY}\nend", f"key:\n{MASK}\nend"),
        (KEY[:60], MASK),
        ("https://me:pa55@host/x", f"https://me:{MASK}@host/x"),
        ("postgresql://u:p%40w@db:5432/x", f"postgresql://u:{MASK}@db:5432/x"),
        ("https://host/x?a=1&X-Amz-Signature=0a1b2c3d4e", f"https://host/x?a=1&X-Amz-Signature={MASK}"),
        ("Authorization: Bearer abc.def-123", f"Authorization: Bearer {MASK}"),
        ("curl -H 'Authorization: Basic dXNlcjpwYXNz'", f"curl -H 'Authorization: Basic {MASK}'"),
        ("sent bearer 0123456789abcdef0", f"sent bearer {MASK}"),
        ("password=hunter2", f"password={MASK}"),
        ("PASSWORD = 'correct horse'", f"PASSWORD = '{MASK}'"),
        ("export DB_PASSWORD=hunter2; run", f"export DB_PASSWORD={MASK}; run"),
        ('{"api_key": "correcthorse"}', f'{{"api_key": "{MASK}"}}'),
        ("client-secret: s3cr3t-thing", f"client-secret: {MASK}"),
        ("aws_secret_access_key=abcd/efg+hi", f"aws_secret_access_key={MASK}"),
        ("tool --token abc123 file", f"tool --token {MASK} file"),
        ("tool --api-key=abc123 file", f"tool --api-key={MASK} file"),
        ("ABSK" + "aB3/" * 30 + "==", MASK),
        ("sntrys_" + "aB3/" * 15, MASK),
        ("AccountKey=abcd1234==;Endpoint=x", f"AccountKey={MASK};Endpoint=x"),
        ("https://hooks.slack.com/services/T0000/B0000/abcdefghij1234", f"https://hooks.slack.com/services/{MASK}"),
    ],
)  # fmt: skip
def test_other_secrets(text: str, expected: str) -> None:
    assert redact(text) == (expected, 1)


@pytest.mark.parametrize(
    "text",
    [
        f"commit {HEX}",
        f"checkpoint {HEX[:8]} of 123e4567-e89b-12d3-a456-426614174000",
        "sha256:" + "0a1b2c3d" * 8,
        "the token: refresh it before use",
        "password: required",
        "password: <your password>",
        "password=$PASSWORD token=${TOKEN} key={{ secret }}",
        "token=None",
        "max_tokens: 4096, tokens=12000, token_count=5000",
        "fix the password reset flow",
        "secrets/file.txt and src/password_reset.py",
        "tokenizer=trigram",
        "task-list sk-learn-contrib-extensions",
        "https://host:8080/path and https://user@host/x and git@github.com:me/x.git",
        "ssh://git@host:22/x",
        "bearer of bad news",
        "author: Ada <ada@example.com>",
        "passwd not found",
        "",
    ],
)
def test_text_without_a_secret_stays(text: str) -> None:
    assert redact(text) == (text, 0)


@pytest.mark.parametrize("token", TOKENS)
def test_a_token_is_a_credential_beyond_doubt(token: str) -> None:
    found = list(credentials(f"first\nwith {token} in it\n"))
    assert len(found) == 1
    assert found[0].start == len("first\nwith ")
    assert found[0].kind.startswith(("a token of a ", "a JSON web token"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("password=hunter2", []),
        ("https://user:password@host and https://me:me@host", []),
        ("x https://me:pa55@host/x", [Credential("a password in a URL", 2)]),
        ("'-----BEGIN PRIVATE KEY-----'", []),
        ("\n-----BEGIN PRIVATE KEY-----\n", [Credential("a private key", 1)]),
        ("a = 1\napi_key = 'q7R2kd9sLpX0vbTz8Wm1'", [Credential("a value of 'api_key'", 6)]),
        ("api_key = 'qqqqqqqqq111qqqqqqqqqqq'", []),
    ],
)
def test_only_certain_tokens_are_credentials(text: str, expected: list[Credential]) -> None:
    assert list(credentials(text)) == expected


def test_values() -> None:
    value = {
        "password": "hunter2",
        "list": [TOKENS[0], 5, None, True, {"x": "y"}],
        TOKENS[5]: 1.5,
        "token": 7,
        "pwd": "",
    }
    assert redact_value(value) == (
        {"password": MASK, "list": [MASK, 5, None, True, {"x": "y"}], MASK: 1.5, "token": 7, "pwd": ""},
        3,
    )


@given(st.text(alphabet=st.sampled_from("pasword=:'\" tkn-_/@.\n[]?&sk1A"), max_size=80))
def test_twice_is_once(text: str) -> None:
    once, _ = redact(text)
    assert redact(once) == (once, 0)


@pytest.mark.parametrize("piece", ["a", "a-", "password", "eyJ", "a.b", "://", "-----BEGIN PRIVATE KEY-----", "x=' "])
def test_long_texts_take_no_time(piece: str) -> None:
    """Quadratic work on half a megabyte would take minutes."""
    redact(piece * (500_000 // len(piece)))
