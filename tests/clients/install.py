"""Install the clients by npm: `python -m tests.clients.install FOLDER [NAME…]`.

The versions are those of `package.json` beside this file. A client that cannot be had is left out, and its tests are
skipped with the reason; in CI nothing may be left out.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

PACKAGES = {
    "claude-code": "@anthropic-ai/claude-code",
    "codex": "@openai/codex",
    "gemini": "@google/gemini-cli",
    "copilot": "@github/copilot",
    "opencode": "opencode-ai",
}


def install(folder: Path, names: Sequence[str]) -> dict[str, str]:
    """Install what is not there yet; why clients could not be had, by name."""
    npm = shutil.which("npm")
    if npm is None:
        return dict.fromkeys(names, "npm is not installed")
    versions = json.loads(Path(__file__).with_name("package.json").read_text())["dependencies"]
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "package.json").exists():
        (folder / "package.json").write_text('{"name": "clients", "version": "1.0.0", "private": true}\n')
    failed = {}
    wanted = {name: f"{PACKAGES[name]}@{versions[PACKAGES[name]]}" for name in names}
    wanted = {name: package for name, package in wanted.items() if _version(folder, name) != versions[PACKAGES[name]]}
    for name, package in wanted.items():
        words = [npm, "install", "--no-audit", "--no-fund", "--loglevel=error", package]
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            failed[name] = next(iter(done.stderr.strip().splitlines()), f"npm exited with {done.returncode}")
    return failed


def _version(folder: Path, name: str) -> str | None:
    try:
        text = (folder / "node_modules" / PACKAGES[name] / "package.json").read_text()
    except OSError:
        return None
    found = json.loads(text)["version"]
    return found if isinstance(found, str) else None


def main(argv: Sequence[str]) -> int:
    folder, names = Path(argv[0]), argv[1:] or list(PACKAGES)
    failed = install(folder, names)
    for name, reason in failed.items():
        print(f"{name} cannot be installed: {reason}", file=sys.stderr)
    return 1 if failed and "AGENTOS_TEST_CI" in os.environ else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
