"""Remotes of tests: bare repositories, clones that stand for other machines, and servers on loopback.

A clone has a home of its own only by its configuration: its name as a host is set, so that tests can name it. Servers
are real: sshd of Debian's openssh-server, and git's own http-backend behind Python's HTTP server.
"""

from __future__ import annotations

import contextlib
import http.server
import os
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.json_reference import check_document
from tests.support.repo import Repo, git
from tests.support.tool import run_ok
from tests.support.waiting import wait_until

TIMELINES = "refs/agentos/hosts/*"


def make_bare(folder: Path, like: Repo) -> Path:
    """An empty bare repository with the formats of another repository."""
    path = folder / "shared.git"
    algorithm = like.text("rev-parse", "--show-object-format")
    git(folder, "init", "-q", "--bare", f"--object-format={algorithm}", path.name)
    git(path, "config", "uploadpack.allowFilter", "true")
    return path


def connect(repo: Repo, url: str | Path, host: str) -> None:
    """Give a repository the remote `origin`, and a name."""
    repo.git("remote", "add", "origin", url if isinstance(url, str) else url.as_uri())
    repo.config("agentos.sync.host", host)


def clone(folder: Path, url: str | Path, host: str) -> Repo:
    """Another machine's clone, without branches: what comes, comes by `sync`."""
    made = Repo(folder / host)
    algorithm = git(url, "rev-parse", "--show-object-format").decode().strip() if isinstance(url, Path) else None
    Repo.init(made.path, *([f"--object-format={algorithm}"] if algorithm else []))
    connect(made, url, host)
    return made


def sync(repo: Repo, *words: str) -> Any:
    """`sync`, which has to succeed; its document, which is as the reference says."""
    document = run_ok(repo.path, "sync", *words)
    check_document(document)
    return document


def refs_on(path: Path) -> dict[str, str]:
    """The timelines on a bare repository: name below `refs/agentos/hosts/` -> commit."""
    rows = git(path, "for-each-ref", "--format=%(refname) %(objectname)", "refs/agentos/").decode().splitlines()
    return {name.removeprefix("refs/agentos/hosts/"): oid for name, oid in (row.split(" ") for row in rows)}


def branches_on(path: Path) -> list[str]:
    return git(path, "for-each-ref", "--format=%(refname)", "refs/heads", "refs/tags").decode().split()


def add_hook(path: Path, name: str, script: str) -> Path:
    """Give a bare repository a hook."""
    hook = path / "hooks" / name
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\n{script}\n")
    hook.chmod(0o755)
    return hook


def require(program: str, package: str) -> str:
    """The path of a program; the test is skipped where it is not installed, and fails in CI."""
    found = shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/usr/lib/git-core")
    if found is None:
        reason = f"{program} is not installed (Debian: {package})"
        if os.environ.get("AGENTOS_TEST_CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


@contextlib.contextmanager
def ssh_server(folder: Path, path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Serve a bare repository by a real sshd on loopback; its URL. git reaches it by the key that is made for it."""
    sshd = require("sshd", "openssh-server")
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    shutil.copy(folder / "user.pub", folder / "authorized")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # where sshd locks itself up
    settings = {
        "HostKey": folder / "host",
        "AuthorizedKeysFile": folder / "authorized",
        "ListenAddress": "127.0.0.1",
        "Port": port,
        "PidFile": "none",
        "UsePAM": "no",
        "StrictModes": "no",
        "PasswordAuthentication": "no",
    }
    (folder / "sshd_config").write_text("".join(f"{key} {value}\n" for key, value in settings.items()))
    server = subprocess.Popen([sshd, "-D", "-e", "-f", folder / "sshd_config"], stderr=subprocess.PIPE)
    try:
        assert server.stderr is not None
        for line in server.stderr:
            if b"listening" in line:
                break
        else:
            pytest.fail("sshd does not start")
        options = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o BatchMode=yes"
        monkeypatch.setenv("GIT_SSH_COMMAND", f"ssh -F none -i '{folder / 'user'}' {options}")
        yield f"ssh://127.0.0.1:{port}{path}"
    finally:
        server.kill()
        server.wait()
        assert server.stderr is not None
        server.stderr.close()


@contextlib.contextmanager
def git_daemon(folder: Path) -> Iterator[str]:
    """Serve what is in a folder by git's own daemon on loopback; its URL. Pushing is allowed to everybody."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = ("--export-all", "--enable=receive-pack", "--listen=127.0.0.1", f"--port={port}", "--max-connections=0")
    words = ("git", "daemon", f"--base-path={folder}", "--reuseaddr", *options, str(folder))
    server = subprocess.Popen(words, stderr=subprocess.DEVNULL, start_new_session=True)  # git starts another program

    def answers() -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return True
        return False

    try:
        wait_until(answers, "git daemon does not answer")
        yield f"git://127.0.0.1:{port}"
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


@contextlib.contextmanager
def http_server(path: Path) -> Iterator[str]:
    """Serve a bare repository by git http-backend on loopback; its URL. Pushing is allowed to everybody."""
    backend = require("git-http-backend", "git")
    git(path, "config", "http.receivepack", "true")

    class Handler(_Backend):
        program, root = backend, str(path.parent)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/{path.name}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Backend(http.server.BaseHTTPRequestHandler):
    """Passes requests to git http-backend, as a web server does by CGI (RFC 3875)."""

    program = root = ""
    protocol_version = "HTTP/1.0"

    def do_GET(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        if self.headers.get("Transfer-Encoding") == "chunked":
            self._answer(self._chunks())
        else:
            self._answer(self.rfile.read(int(self.headers.get("Content-Length") or 0)))

    def _chunks(self) -> bytes:
        data = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            data += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return data

    def _answer(self, body: bytes) -> None:
        name, _, query = self.path.partition("?")
        given = {
            "GIT_PROJECT_ROOT": self.root,
            "GIT_HTTP_EXPORT_ALL": "1",
            "REQUEST_METHOD": self.command,
            "PATH_INFO": name,
            "QUERY_STRING": query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "REMOTE_USER": "tests",
            "REMOTE_ADDR": "127.0.0.1",
        }
        done = subprocess.run([self.program], input=body, capture_output=True, check=False, env={**os.environ, **given})
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
        self.send_response(int(fields.pop("Status", "200 OK").split()[0]))
        for key, value in fields.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""
