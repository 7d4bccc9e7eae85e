"""Keys that are made up, in the forms of twenty providers, in files of the kinds in which keys are found; and files
that only look as if they had any. All are made at run time from a seed, so that no forge takes this file for a leak.
"""

from __future__ import annotations

import base64
import json
import random
import string
import uuid
from collections.abc import Callable, Iterator
from typing import NamedTuple
from urllib.parse import quote

BASE62 = string.ascii_letters + string.digits
BASE64 = BASE62 + "+/"
BASE64URL = BASE62 + "-_"
HEX = "0123456789abcdef"


class Hidden(NamedTuple):
    """A file with one key: whose it is, what it stands in, and in which line of the file it begins."""

    provider: str
    surrounding: str
    path: bytes
    data: bytes
    line: int
    secret: str


class Ordinary(NamedTuple):
    """A file without a secret."""

    kind: str
    path: bytes
    data: bytes


class _Key(NamedTuple):
    """A key with a name under which a program has it, the field of a configuration, and the address of a call with it
    (`{}` for the key); `beside` is an identifier that stands with it."""

    secret: str
    name: str
    field: str
    url: str = "https://api.service.io/v1/items?api_key={}&limit=20"
    beside: tuple[str, str] | None = None


def text(rng: random.Random, alphabet: str, length: int) -> str:
    return "".join(rng.choices(alphabet, k=length))


def _aws_access(rng: random.Random) -> _Key:
    secret = rng.choice(("AK" + "IA", "AS" + "IA")) + text(rng, string.ascii_uppercase + "234567", 16)
    return _Key(secret, "AWS_ACCESS_KEY_ID", "accessKeyId", "https://b.s3.io/k?AWSAccessKeyId={}&Expires=99")


def _aws_secret(rng: random.Random) -> _Key:
    name, field = rng.choice(
        (("AWS_SECRET_ACCESS_KEY", "SecretAccessKey"), ("aws_secret_access_key", "secretKey"), ("S3_KEY", "s3")),
    )
    access = _aws_access(rng).secret
    return _Key(text(rng, BASE64, 40), name, field, f"s3://{access}:{{}}@backups/x", ("AWS_ACCESS_KEY_ID", access))


def _github(rng: random.Random) -> _Key:
    secret = rng.choice("pousr").join(("gh", "_")) + text(rng, BASE62, 36)
    return _Key(secret, "GITHUB_TOKEN", "token", "https://x-access-token:{}@github.com/acme/app.git")


def _github_fine(rng: random.Random) -> _Key:
    secret = "github_" + "pat_" + text(rng, BASE62, 22) + "_" + text(rng, BASE62, 59)
    return _Key(secret, "GH_PAT", "pat", "https://{}@github.com/acme/app.git")


def _gitlab(rng: random.Random) -> _Key:
    secret = "gl" + "pat-" + text(rng, BASE64URL, 20)
    return _Key(secret, "GITLAB_TOKEN", "privateToken", "https://oauth2:{}@gitlab.com/acme/app.git")


def _slack(rng: random.Random) -> _Key:
    bot = f"xo{'xb'}-{text(rng, string.digits, 12)}-{text(rng, string.digits, 13)}-{text(rng, BASE62, 24)}"
    numbers = "-".join(text(rng, string.digits, 12) for _ in range(3))
    return _Key(rng.choice((bot, f"xo{'xp'}-{numbers}-{text(rng, HEX, 32)}")), "SLACK_BOT_TOKEN", "botToken")


def _stripe(rng: random.Random) -> _Key:
    secret = rng.choice(("sk", "rk")) + "_li" + "ve_" + text(rng, BASE62, rng.choice((24, 99)))
    return _Key(secret, "STRIPE_SECRET_KEY", "stripeKey")


def _openai(rng: random.Random) -> _Key:
    middle = "T3Blbk" + "FJ"
    project = "sk-" + "proj-" + text(rng, BASE64URL, 74) + middle + text(rng, BASE64URL, 73) + rng.choice(BASE62)
    users = "sk-" + text(rng, BASE62, 20) + middle + text(rng, BASE62, 20)
    return _Key(rng.choice((project, users)), "OPENAI_API_KEY", "openaiKey")


def _anthropic(rng: random.Random) -> _Key:
    return _Key("sk-" + "ant-api03-" + text(rng, BASE64URL, 93) + "AA", "ANTHROPIC_API_KEY", "apiKey")


def _google(rng: random.Random) -> _Key:
    return _Key("AI" + "za" + text(rng, BASE64URL, 34) + rng.choice(BASE62), "GOOGLE_API_KEY", "key")


def _google_account(rng: random.Random) -> _Key:
    account = {
        "type": "service_account",
        "project_id": "acme-prod",
        "private_key_id": text(rng, HEX, 40),
        "private_key": _pem(rng, "PRIVATE KEY", 1600),
        "client_email": "bot@acme-prod.iam.gserviceaccount.com",
    }
    return _Key(json.dumps(account, indent=2), "GOOGLE_APPLICATION_CREDENTIALS_JSON", "serviceAccount")


def _npm(rng: random.Random) -> _Key:
    return _Key("np" + "m_" + text(rng, BASE62, 36), "NPM_TOKEN", "npmToken", "https://registry.io/?_authToken={}")


def _pypi(rng: random.Random) -> _Key:
    secret = "py" + "pi-AgEIcHlwaS5vcmc" + text(rng, BASE64URL, 150) + rng.choice(BASE62)
    return _Key(secret, "TWINE_PASSWORD", "password", "https://__token__:{}@upload.io/legacy/")


def _sendgrid(rng: random.Random) -> _Key:
    secret = "S" + "G." + text(rng, BASE64URL, 22) + "." + text(rng, BASE64URL, 42) + rng.choice(BASE62)
    return _Key(secret, "SENDGRID_API_KEY", "sendgrid")


def _twilio(rng: random.Random) -> _Key:
    account = "A" + "C" + text(rng, HEX, 32)
    if rng.random() < 0.5:
        return _Key("S" + "K" + text(rng, HEX, 32), "TWILIO_API_KEY", "sid")
    url = f"https://{account}:{{}}@api.twilio.com/2010-04-01/Accounts.json"
    return _Key(text(rng, HEX, 32), "TWILIO_AUTH_TOKEN", "authToken", url, ("TWILIO_ACCOUNT_SID", account))


def _huggingface(rng: random.Random) -> _Key:
    return _Key("h" + "f_" + text(rng, string.ascii_letters, 34), "HF_TOKEN", "hfToken")


def _azure(rng: random.Random) -> _Key:
    url = "DefaultEndpointsProtocol=https;AccountName=acme;AccountKey={};EndpointSuffix=core.windows.net"
    return _Key(text(rng, BASE64, 86) + "==", "AZURE_STORAGE_KEY", "storageAccountKey", url)


def _telegram(rng: random.Random) -> _Key:
    number = str(rng.randint(10**8, 10**10 - 1))
    secret = f"{number}:A" + "A" + text(rng, BASE64URL, 32) + rng.choice(BASE62)
    return _Key(secret, "TELEGRAM_BOT_TOKEN", "bot", "https://api.telegram.org/bot{}/getUpdates")


def _digitalocean(rng: random.Random) -> _Key:
    return _Key("do" + rng.choice("opr") + "_v1_" + text(rng, HEX, 64), "DIGITALOCEAN_TOKEN", "doToken")


def _private(rng: random.Random) -> _Key:
    kind, length = rng.choice((("RSA ", 1600), ("OPENSSH ", 340), ("EC ", 164), ("", 1600), ("ENCRYPTED ", 1700)))
    return _Key(_pem(rng, kind + "PRIVATE" + " KEY", length), "DEPLOY_KEY", "deployKey")


def _pem(rng: random.Random, label: str, length: int) -> str:
    label = label.replace("PRIVATE KEY", "PRIVATE" + " KEY")
    body = text(rng, BASE64, length)
    lines = [body[n : n + 64] for n in range(0, length, 64)]
    return "\n".join((f"-----BEGIN {label}-----", *lines, f"-----END {label}-----", ""))


PROVIDERS: dict[str, Callable[[random.Random], _Key]] = {
    "AWS access key": _aws_access,
    "AWS secret key": _aws_secret,
    "GitHub classic token": _github,
    "GitHub fine-grained token": _github_fine,
    "GitLab": _gitlab,
    "Slack": _slack,
    "Stripe": _stripe,
    "OpenAI": _openai,
    "Anthropic": _anthropic,
    "Google API key": _google,
    "Google service account": _google_account,
    "npm": _npm,
    "PyPI": _pypi,
    "SendGrid": _sendgrid,
    "Twilio": _twilio,
    "Hugging Face": _huggingface,
    "Azure storage": _azure,
    "Telegram": _telegram,
    "DigitalOcean": _digitalocean,
    "private key": _private,
}


def _env(key: _Key) -> tuple[str, str]:
    beside = f"{key.beside[0]}={key.beside[1]}\n" if key.beside else ""
    value = json.dumps(key.secret) if "\n" in key.secret else key.secret
    return ".env", f"DEBUG=1\n{beside}{key.name}={value}\n"


def _json_file(key: _Key) -> tuple[str, str]:
    beside = {key.beside[0]: key.beside[1]} if key.beside else {}
    return "config.json", json.dumps({"port": 8080, **beside, key.field: key.secret}, indent=2)


def _yaml(key: _Key) -> tuple[str, str]:
    beside = f"  {key.beside[0].lower()}: {key.beside[1]}\n" if key.beside else ""
    if "\n" in key.secret:
        value = "|\n" + "".join(f"    {line}\n" for line in key.secret.splitlines())
    else:
        value = f"{key.secret}\n" if "AccountKey" in key.url or len(key.secret) % 2 else f'"{key.secret}"\n'
    return "values.yaml", f"service:\n  port: 8080\n{beside}  {key.name.lower()}: {value}"


def _python(key: _Key) -> tuple[str, str]:
    quoted = f'"""{key.secret}"""' if "\n" in key.secret else f'"{key.secret}"'
    if key.beside:
        return "settings.py", f'import client\n\nclient.connect("{key.beside[1]}", {quoted}, retries=3)\n'
    return "settings.py", f"import os\n\n{key.name} = {quoted}\nTIMEOUT = 30\n"


def _shell(key: _Key) -> tuple[str, str]:
    beside = f"export {key.beside[0]}={key.beside[1]}\n" if key.beside else ""
    if "\n" in key.secret:
        return "deploy.sh", f"#!/bin/sh\ncat > key <<'END'\n{key.secret}END\n"
    return "deploy.sh", f"#!/bin/sh\nset -e\n{beside}export {key.name}='{key.secret}'\n./deploy --verbose\n"


def _url(key: _Key) -> tuple[str, str]:
    if "\n" in key.secret:  # no address has a key of several lines
        return _json_file(key)
    secret = key.secret if "AccountKey" in key.url or "s3://" in key.url else quote(key.secret, safe=":")
    return "README.md", f"# Service\n\nCall it:\n\n    curl '{key.url.format(secret)}'\n"


SURROUNDINGS: dict[str, Callable[[_Key], tuple[str, str]]] = {
    ".env": _env,
    "JSON": _json_file,
    "YAML": _yaml,
    "Python": _python,
    "shell": _shell,
    "URL": _url,
}


def hidden(seed: int, count: int = 200) -> list[Hidden]:
    """`count` keys, as many of each provider, each in one of the surroundings."""
    rng = random.Random(seed)
    found = []
    for number in range(count):
        provider = list(PROVIDERS)[number % len(PROVIDERS)]
        surrounding = list(SURROUNDINGS)[(number // len(PROVIDERS)) % len(SURROUNDINGS)]
        key = PROVIDERS[provider](rng)
        name, content = SURROUNDINGS[surrounding](key)
        above = "".join(f"# {line}\n" for line in _prose(rng, rng.randrange(30)))
        marker = ("-----BEGIN", quote(key.secret, safe=":")[:20], key.secret[:20])
        at = max(content.find(each) for each in marker)
        line = content.count("\n", 0, at) + 1
        if not name.endswith(".json"):
            content, line = above + content, line + above.count("\n")
        found.append(Hidden(provider, surrounding, f"app/{name}".encode(), content.encode(), line, key.secret))
    return found


_SOME_WORDS = (
    "the checkout of a worktree takes its time when every file has to be written once more and nothing is cached so"
    " that a second look at the index is cheaper than the first one which reads configuration and attributes of all"
).split()


def _prose(rng: random.Random, lines: int) -> list[str]:
    return [" ".join(rng.choices(_SOME_WORDS, k=rng.randint(3, 14))) for _ in range(lines)]


def _sri(rng: random.Random) -> str:
    return "sha512-" + base64.b64encode(rng.randbytes(64)).decode()


def _package_lock(rng: random.Random) -> tuple[str, str]:
    packages = {
        f"node_modules/{text(rng, string.ascii_lowercase, 8)}": {
            "version": f"{rng.randrange(9)}.{rng.randrange(20)}.{rng.randrange(9)}",
            "resolved": f"https://registry.io/{text(rng, string.ascii_lowercase, 9)}/-/x-1.0.0.tgz",
            "integrity": _sri(rng),
        }
        for _ in range(rng.randint(3, 60))
    }
    return "package-lock.json", json.dumps({"name": "app", "lockfileVersion": 3, "packages": packages}, indent=2)


def _yarn_lock(rng: random.Random) -> tuple[str, str]:
    entries = (
        f'"{text(rng, string.ascii_lowercase, 7)}@^1.2.3":\n  version "1.2.{n}"\n'
        f'  resolved "https://registry.io/x/-/x-1.2.3.tgz#{text(rng, HEX, 40)}"\n  integrity {_sri(rng)}\n'
        for n in range(rng.randint(2, 40))
    )
    return "yarn.lock", "\n".join(entries)


def _requirements(rng: random.Random) -> tuple[str, str]:
    lines = (
        f"{text(rng, string.ascii_lowercase, 6)}==1.{n} \\\n    --hash=sha256:{text(rng, HEX, 64)} \\\n"
        f"    --hash=sha256:{text(rng, HEX, 64)}"
        for n in range(rng.randint(2, 40))
    )
    return "requirements.txt", "\n".join(lines)


def _poetry_lock(rng: random.Random) -> tuple[str, str]:
    files = ",\n".join(
        f'    {{file = "x-{n}.whl", hash = "sha256:{text(rng, HEX, 64)}"}}' for n in range(rng.randint(2, 30))
    )
    return "poetry.lock", f'[[package]]\nname = "x"\nfiles = [\n{files}\n]\ncontent-hash = "{text(rng, HEX, 64)}"\n'


def _go_sum(rng: random.Random) -> tuple[str, str]:
    lines = (
        f"golang.org/x/{text(rng, string.ascii_lowercase, 5)} v0.{n}.0 h1:{text(rng, BASE64, 43)}="
        for n in range(rng.randint(2, 60))
    )
    return "go.sum", "\n".join(lines)


def _sums(rng: random.Random) -> tuple[str, str]:
    size = rng.choice((32, 40, 64, 128))
    names = ("common-password", "secret_store.py", "api-key", "token", "app.tar.gz", "README")
    return "SHA256SUMS", "".join(f"{text(rng, HEX, size)}  {rng.choice(names)}\n" for _ in range(rng.randint(2, 50)))


def _uuids(rng: random.Random) -> tuple[str, str]:
    names = ("id", "request_id", "api_key", "token", "tenant", "secret_id")
    lines = (
        f"{rng.choice(names)}: {uuid.UUID(int=rng.getrandbits(128), version=4)}" for _ in range(rng.randint(2, 40))
    )
    return "ids.yaml", "\n".join(lines)


def _minified(rng: random.Random) -> tuple[str, str]:
    parts = []
    for _ in range(rng.randint(20, 400)):
        a, b, c = (text(rng, string.ascii_letters, rng.randint(1, 3)) for _ in range(3))
        hashed = text(rng, HEX, 20)
        parts.append(
            rng.choice(
                (
                    f"function {a}({b},{c}){{return {b}.{c}[{rng.randrange(99)}]||{a}}}",
                    f'{a}.token={b}.getToken("{c}",{rng.randrange(10**6)});',
                    f'{rng.randrange(999)}:"{hashed}",',
                    f"var {a}={{key:{b},password:void 0,secret:{c}.secret_key_{rng.randrange(99)}}};",
                    f'e.exports={a}.p+"static/media/{c}.{text(rng, HEX, 8)}.svg";',
                )
            )
        )
    return "app.min.js", "".join(parts) + f"\n//# sourceMappingURL=app.{text(rng, HEX, 20)}.js.map\n"


def _certificate(rng: random.Random) -> tuple[str, str]:
    label = rng.choice(("CERTIFICATE", "PUBLIC KEY", "RSA PUBLIC KEY", "CERTIFICATE REQUEST", "PGP PUBLIC KEY BLOCK"))
    return "ca.pem", _pem(rng, label, rng.randint(200, 2000)) * rng.randint(1, 8)


def _ssh(rng: random.Random) -> tuple[str, str]:
    lines = (
        f"ssh-rsa {base64.b64encode(b'ssh-rsa' + rng.randbytes(270)).decode()} user@host{n}"
        for n in range(rng.randint(1, 9))
    )
    return "authorized_keys", "\n".join(lines)


def _placeholders(rng: random.Random) -> tuple[str, str]:
    lines = (
        "AWS_ACCESS_KEY_ID=" + "AK" + "IAIOSFODNN7EXAMPLE",
        "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfi" + "CYEXAMPLEKEY",
        "GITHUB_TOKEN=" + "gh" + "p_" + "x" * 36,
        "GITHUB_TOKEN=" + "gh" + "p_" + "your_token_here_please_replace_it_now",
        "GITLAB_TOKEN=" + "gl" + "pat-" + "X" * 20,
        "OPENAI_API_KEY=" + "sk-" + "..." + "abcd",
        "OPENAI_API_KEY=" + "sk-" + "proj-" + "0" * 40,
        "OPENAI_API_KEY=" + "sk-" + "1234567890abcdef" * 3,
        "SLACK_TOKEN=" + "xo" + "xb-" + "your-slack-bot-token",
        "STRIPE=" + "sk_te" + "st_" + "xxxxxxxxxxxxxxxxxxxxxxxx",
        "GOOGLE_API_KEY=" + "AI" + "za" + "SyXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX",
        "SENDGRID_API_KEY=" + "S" + "G." + "x" * 22 + "." + "y" * 43,
        "TELEGRAM_TOKEN=123456789:" + "A" + "A" + "x" * 33,
        "HF_TOKEN=" + "h" + "f_" + "your_huggingface_token_goes_here_ok",
        "NPM_TOKEN=" + "np" + "m_" + "0123456789" * 3 + "abcdef",
        "DATABASE_URL=postgres://user:password@localhost:5432/app",
        "DATABASE_URL=postgres://${DB_USER}:${DB_PASSWORD}@${DB_HOST}/app",
        "REDIS_URL=redis://:changeme@redis:6379/0",
        "PASSWORD=changeme",
        "API_KEY=<your api key>",
        "SECRET_KEY=django-insecure-change-me",
        "API_TOKEN=${API_TOKEN:?missing}",
        "TOKEN={{ vault_token }}",
        "private_key: -----BEGIN " + "PRIVATE KEY-----...",
        "PRIVATE_KEY=-----BEGIN RSA " + "PRIVATE KEY-----\\nMIIE...\\n-----END RSA " + "PRIVATE KEY-----",
    )  # fmt: skip
    return ".env.example", "\n".join(rng.sample(lines, rng.randint(3, len(lines)))) + "\n"


def _fixture(rng: random.Random) -> tuple[str, str]:
    lines = (
        'assert login("alice", password="correct horse battery staple 1234")',
        'TOKEN = "test-token-1234567890abcdef1234"',
        'client = Client(api_key="fake_api_key_0123456789abcdef")',
        'headers = {"Authorization": f"Bearer {token}"}',
        'headers = {"Authorization": "Bearer example-token-0123456789"}',
        'monkeypatch.setenv("API_KEY", "dummy-key-for-tests-00000001")',
        f'commit = "{text(rng, HEX, 40)}"',
        f'assert digest == "{text(rng, HEX, 64)}"',
        f"etag = 'W/\"{text(rng, HEX, 32)}\"'",
        f'page_token = "{text(rng, BASE64URL, 43)}"',
        f'csrf_token = "{text(rng, BASE62, 32)}"',
        f'next_sync_token: "{text(rng, BASE64URL, 30)}"',
        'token = data["items"][0]["nextPageToken2"]',
        "secret = settings.providers[0].client_secret_v2_longname3",
        "password = os.environ['DB_PASSWORD_PRODUCTION_2024_EU']",
        "key = (row.account_id_2024, row.region_code_17, row.shard_number_3)",
        'URL = "https://user:pass@example.com/path"',
        'path = "/var/run/secrets/kubernetes.io/serviceaccount/token"',
        f'image = "registry.io/app@sha256:{text(rng, HEX, 64)}"',
        f'PNG = "data:image/png;base64,{base64.b64encode(rng.randbytes(300)).decode()}"',
        f'uuid = "{uuid.UUID(int=rng.getrandbits(128), version=4)}"',
        f'public_key = "{base64.b64encode(rng.randbytes(32)).decode()}"',
        f'cache_key = "{text(rng, HEX, 40)}"',
    )
    return "test_client.py", "\n".join(rng.sample(lines, rng.randint(5, len(lines)))) + "\n"


def _workflow(rng: random.Random) -> tuple[str, str]:
    steps = "".join(
        f"      - uses: actions/{rng.choice(('checkout', 'cache', 'setup-python'))}@{text(rng, HEX, 40)} # v{n}\n"
        "        env:\n          API_TOKEN: ${{ secrets.API_TOKEN }}\n          NPM_TOKEN: ${{ secrets.NPM_TOKEN }}\n"
        for n in range(rng.randint(1, 9))
    )
    return "ci.yml", f"on: push\njobs:\n  build:\n    runs-on: ubuntu-24.04\n    steps:\n{steps}"


def _html(rng: random.Random) -> tuple[str, str]:
    tags = "".join(
        f'<script src="/x{n}.js" integrity="{_sri(rng)}" crossorigin="anonymous"></script>\n'
        for n in range(rng.randint(1, 9))
    )
    return "index.html", f'<meta name="csrf-token" content="{text(rng, BASE64, 86)}==">\n{tags}'


def _data(rng: random.Random) -> tuple[str, str]:
    rows = (f"{n},{text(rng, BASE62, 22)},{rng.random()},{text(rng, HEX, 32)}" for n in range(rng.randint(5, 80)))
    return "export.csv", "row,id,score,hash\n" + "\n".join(rows)


def _notebook(rng: random.Random) -> tuple[str, str]:
    output = {"data": {"image/png": base64.b64encode(rng.randbytes(rng.randint(500, 9000))).decode()}}
    cell = {"cell_type": "code", "id": text(rng, HEX, 8), "outputs": [output], "source": _prose(rng, 5)}
    return "plot.ipynb", json.dumps({"cells": [cell], "nbformat": 4}, indent=1)


def _source_map(rng: random.Random) -> tuple[str, str]:
    mappings = ";".join(text(rng, BASE64, rng.choice((4, 5, 8, 20))) for _ in range(200))
    return "app.js.map", json.dumps({"version": 3, "sources": ["a.ts"], "names": ["token"], "mappings": mappings})


def _log(rng: random.Random) -> tuple[str, str]:
    lines = (
        f"2026-01-{n % 28 + 1:02} commit {text(rng, HEX, 40)} tree {text(rng, HEX, 40)} {' '.join(_prose(rng, 1))}"
        for n in range(rng.randint(5, 60))
    )
    return "git.log", "\n".join(lines)


def _document(rng: random.Random) -> tuple[str, str]:
    return "notes.md", "\n".join(_prose(rng, rng.randint(20, 200)))


_KINDS = (
    _package_lock, _yarn_lock, _requirements, _poetry_lock, _go_sum, _sums, _uuids, _minified, _certificate, _ssh,
    _placeholders, _fixture, _workflow, _html, _data, _notebook, _source_map, _log, _document,
)  # fmt: skip


def ordinary(seed: int, count: int) -> Iterator[Ordinary]:
    """`count` files of every kind that looks as if it had keys, and of some that do not; one in twenty is binary."""
    rng = random.Random(seed)
    for number in range(count):
        if number % 20 == 19:
            yield Ordinary("binary", f"{number}/data.bin".encode(), rng.randbytes(rng.randint(100, 20_000)))
            continue
        make = _KINDS[number % len(_KINDS)]
        name, content = make(rng)
        yield Ordinary(make.__name__.strip("_"), f"{number}/{name}".encode(), content.encode())
