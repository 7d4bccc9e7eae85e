"""What is a secret in bytes, what stands beside one, and what only looks like one."""

from __future__ import annotations

import base64
import json
import random
import string

import pytest

from git_agentos.secrets import rules
from tests.support.made_up_keys import BASE62, BASE64, BASE64URL, HEX, PROVIDERS, text

RNG = random.Random(3)
GITHUB = "gh" + "p_" + text(RNG, BASE62, 36)
ACCESS = "AK" + "IA" + "Z7QRSTUVWX2345" + "QK"
AWS_SECRET = "q7R/kd9sLpX0vbTz8Wm1+Ye4" + "HgTn5Jc2Uf6Ax3Bo"
VALUE = "v8Kq3zT1mX7pLw9sR2dN"
BODY = text(random.Random(4), BASE64, 1600)


def kinds(content: str | bytes, *, binary: bool = False) -> list[str]:
    data = content.encode() if isinstance(content, str) else content
    return [each.kind for each in rules.find(data, binary=binary)]


@pytest.mark.parametrize("around", [
    "{}", "x={}", "'{}',", "a\n{}\nb", "({})", "https://x:{}@github.com/a.git", "?token={}&x=1", "Bearer {}",
    '"a\\n{}\\n"', "next%3D{}%26x", "<t>{}</t>", "TOKEN_{}", "\t{}\t", "`{}`", "é{}é",
])  # fmt: skip
def test_a_token_wherever_it_stands(around: str) -> None:
    data = around.format(GITHUB).encode()
    found = rules.find(data)
    assert [(each.kind, each.value) for each in found] == [("GitHub token", GITHUB.encode())]
    assert data[found[0].start : found[0].end] == GITHUB.encode()


@pytest.mark.parametrize("around", ["a{}", "{}a", "0{}", "%4{}"])
def test_a_part_of_a_longer_word_is_no_token(around: str) -> None:
    assert "AWS access key" not in kinds(around.format(ACCESS))


@pytest.mark.parametrize("provider", PROVIDERS)
def test_every_provider_in_a_binary_file_if_it_has_a_form(provider: str) -> None:
    for seed in range(20):
        secret = PROVIDERS[provider](random.Random(seed)).secret
        found = kinds(b"\0\x01" + secret.encode() + b"\0\xff", binary=True)
        needs_a_name = provider in ("AWS secret key", "Azure storage", "Twilio")
        assert len(found) == (0 if needs_a_name else 1)


@pytest.mark.parametrize(("content", "expected"), [
    (f"DB_PASSWORD={VALUE}", "assigned secret"),
    (f'{{"client_secret": "{VALUE}"}}', "assigned secret"),
    (f"api-key: {VALUE}", "assigned secret"),
    (f"<apiKey>{VALUE}</apiKey>", "assigned secret"),
    (f"os.environ['SESSION_TOKEN'] = '{VALUE}'", "assigned secret"),
    (f"setenv(\"AUTH_TOKEN\", '{VALUE}')", "assigned secret"),
    (f"tool --token {VALUE} file", "assigned secret"),
    (f"https://api.io/?access_token={VALUE}&x", "assigned secret"),
    (f"Authorization: Bearer {VALUE}", "assigned secret"),
    (f"token = b'{VALUE}'", "assigned secret"),
    ("API_KEY=0f9e8d7c6b5a49382716f5e4d3c2b1a0", "assigned secret"),
    (f"AWS_SECRET_ACCESS_KEY={AWS_SECRET}", "AWS secret key"),
    (f"AZURE_KEY={BODY[:86]}==", "Azure storage key"),
    (f"azure:\n  key: {BODY[:86]}==", "Azure storage key"),
    (f"https://maps.io/?x=1&key={VALUE}", "assigned secret"),
    (f"https://ci:{VALUE}@example.com/x", "password in a URL"),
    ("TELEGRAM=123456789:" + "BB" + "v8Kq3zT1mX7pLw9sR2dNv7Kq2zT5mX9pL", "Telegram bot token"),
    (f"azure_storage_key: {BODY[:86]}==", "Azure storage key"),
    ("TWILIO_AUTH_TOKEN=0f9e8d7c6b5a49382716f5e4d3c2b1a0", "Twilio auth token"),
    ("//registry.io/:_authToken=8d5f3a1c-9b2e-4f60-8c7d-1e2f3a4b5c6d", "npm token"),
    ("git clone https://ci:x9-Trombone@git.acme.io/a", "password in a URL"),
    ("https://hooks.slack.com/services/" + "T0A1B2C3D/B0Z9Y8X7W/q7R2kd9sLpX0vbTz8Wm1Ye4H", "Slack webhook"),
])  # fmt: skip
def test_secrets_without_a_form(content: str, expected: str) -> None:
    assert kinds(f"first\n{content}\nlast\n") == [expected]


@pytest.mark.parametrize("content", [
    f"aws_access_key_id = {ACCESS}\naws_secret = {AWS_SECRET}",
    f"boto3.client('s3', '{ACCESS}', '{AWS_SECRET}')",
    f"{ACCESS},{AWS_SECRET}",
    f"{AWS_SECRET}\n{ACCESS}",
])  # fmt: skip
def test_the_secret_key_beside_an_access_key(content: str) -> None:
    assert sorted(kinds(content)) == ["AWS access key", "AWS secret key"]


def test_a_commit_beside_an_access_key_is_no_secret_key() -> None:
    assert kinds(f"{ACCESS}\ncommit {text(RNG, HEX, 40)}") == ["AWS access key"]


def test_the_token_beside_a_twilio_account() -> None:
    account, token = "A" + "C" + text(RNG, HEX, 32), text(RNG, HEX, 32)
    assert kinds(f"Client('{account}', '{token}')") == ["Twilio auth token"]
    assert kinds(f"Client('{account}')\ndigest {text(RNG, HEX, 40)}") == []


def test_a_private_key_has_one_value_wherever_it_stands() -> None:
    lines = "\n".join(BODY[n : n + 64] for n in range(0, len(BODY), 64))
    pem = "-----BEGIN RSA PRIVATE" + f" KEY-----\n{lines}\n-----END RSA PRIVATE" + " KEY-----\n"
    indented = "key: |\n" + "".join(f"    {line}\n" for line in pem.splitlines())
    joined = "KEY = (\n" + "".join(f'    "{line}\\n"\n' for line in pem.splitlines()) + ")\n"
    headers = pem.replace("-----\n", "-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0A1B\n\n", 1)
    for content in (
        pem,
        json.dumps({"key": pem}),
        json.dumps(json.dumps(pem)),
        indented,
        joined,
        pem.replace("\n", "\r\n"),
    ):
        found = rules.find(content.encode())
        assert [each.kind for each in found] == ["private key"], content
        assert found[0].value == BODY.encode().replace(b"+", b"")
    assert kinds(headers) == ["private key"]


@pytest.mark.parametrize("content", [
    "the words -----BEGIN PRIVATE" + " KEY----- begin a key",
    "-----BEGIN RSA PRIVATE" + " KEY-----\nMIIE...\n-----END RSA PRIVATE" + " KEY-----",
    "_START = '-----BEGIN OPENSSH PRIVATE" + " KEY-----'\n_END = '-----END OPENSSH PRIVATE" + " KEY-----'\n",
    f"-----BEGIN CERTIFICATE-----\n{BODY}\n-----END CERTIFICATE-----",
    f"-----BEGIN PUBLIC KEY-----\n{BODY}\n-----END PUBLIC KEY-----",
])  # fmt: skip
def test_no_private_keys(content: str) -> None:
    assert kinds(content) == []


def web_token(header: object, payload: object) -> str:
    parts = (base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=").decode() for each in (header, payload))
    return ".".join((*parts, text(RNG, BASE64URL, 43)))


def test_web_tokens() -> None:
    assert kinds(web_token({"alg": "HS256"}, {"sub": "u-481", "role": "service_role"})) == ["JSON web token"]
    assert kinds(web_token({"alg": "none"}, {"sub": "u-481"})) == []
    assert kinds(web_token({"alg": "HS256", "typ": "JWT"}, {"sub": "1234567890", "name": "John Doe"})) == []
    assert kinds(web_token({"alg": "HS256", "typ": "JWT"}, {"some": "payload"})) == []
    assert kinds("eyJ" + "abcdefghijkl.eyJ" + "abcdefghijkl.abcdefghijkl") == []


@pytest.mark.parametrize("content", [
    "AWS_ACCESS_KEY_ID=" + "AK" + "IAIOSFODNN7EXAMPLE",
    "aws_secret_access_key=wJalrXUtnFEMI/K7MDENG/bPxRfi" + "CYEXAMPLEKEY",
    "gh" + "p_" + "x" * 36,
    "gh" + "p_" + "aB3" * 12,
    "gh" + "p_" + "klmnopqrstuvwxyzKLMNOPQRSTUVWXYZ0123",
    "gl" + "pat-" + "abcdefghij1234567890",
    "sk_te" + "st_" + "4eC39HqLyjWDarjtT1zdp7dc",
    "123456789:" + "A" + "A" + "x" * 33,
    "AR" + "OA" + "Z7QRSTUVWX2345QK is a role",
    "password = getpass()",
    "password = 'hunter2 is what everybody takes for one'",
    "api_key = os.environ['API_KEY_2024_PRODUCTION_EU1']",
    "api_key=settings.providers[0].api_key_v2_longname3",
    "client_secret = config.get_secret_value_2024_01('x')",
    "secret: /var/run/secrets/2024/01/db-password-17",
    "token: 123e4567-e89b-12d3-a456-426614174000",
    f"next_page_token = '{VALUE}' and Next page token: {VALUE}",
    f"csrf_token={VALUE} publicKeyToken={VALUE} cache_key={VALUE}",
    "dXNlcm5hbWU6cGFzc3dvcmQ= authorization: Basic dXNlcm5hbWU6cGFzc3dvcmQ=",
    "postgresql://user:password@localhost/db and https://user:pass@host and redis://:<password>@h",
    "postgres://postgres:postgres@db/x and mysql://$USER:$PASSWORD@db and https://{user}:{token}@host",
    "postgresql://scott:tiger@db.acme.io/x and ftp://anonymous:anonymous@ftp.acme.io and https://a:b@acme.io",
    "http://127.0.0.1:8080/a@b and ssh://git@github.com:22/x",
    f"commit {text(RNG, HEX, 40)}, sha256:{text(RNG, HEX, 64)}",
    f"password-hash {text(RNG, HEX, 64)}\n{text(RNG, HEX, 32)}  /etc/pam.d/common-password\n{text(RNG, HEX, 32)}",
    f"integrity sha512-{BODY[:86]}==",
    f"data:image/png;base64,{BODY}",
    "sk-learn-contrib-extensions task-list pypi-server xoxb ghp_ hf_hub_download_with_progress",
    string.printable,
    "",
])  # fmt: skip
def test_what_is_no_secret(content: str) -> None:
    assert kinds(content) == []


def test_entropy_alone_is_no_secret() -> None:
    rng = random.Random(8)
    for alphabet in (BASE62, BASE64, BASE64URL, HEX):
        for _ in range(300):
            content = f"{text(rng, alphabet, rng.randint(16, 90))} {text(rng, alphabet, 40)}\n"
            assert kinds(f"value = '{content}'\nx: {content}") == []


def test_of_two_rules_the_surer_one_counts() -> None:
    assert kinds(f"GITHUB_TOKEN={GITHUB}") == ["GitHub token"]
    assert kinds(f"https://ci:{GITHUB}@git.acme.io/a") == ["GitHub token"]


@pytest.mark.parametrize("piece", [
    "sk-", "eyJ", "eyJ-", "eyJa1-", "://", "//x/:_authToken=", "aws key ", "password", "\t=", "a1=", "SK", ":A",
    "12345678:A", "-----BEGIN PRIVATE" + " KEY-----\n", "://a:b", "AKIA", "PuTTY-User-Key-File-2: ", " ", "\n", "a1",
    "token=", "token=a1b2c3d4e5f6g7h8i9j0 ",
])  # fmt: skip
def test_hostile_texts_take_no_time(piece: str) -> None:
    rules.find(piece.encode() * (100_000 // len(piece)))
