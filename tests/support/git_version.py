"""Tests of what only newer versions of git have."""

from __future__ import annotations

import subprocess

import pytest

from git_agentos.git import version

HERE = version.parse(subprocess.run(["git", "version"], capture_output=True, text=True, check=True).stdout)


def needs_git(major: int, minor: int) -> pytest.MarkDecorator:
    """Skip a test where git is older; `make test-matrix` and CI run it with a newer one."""
    return pytest.mark.skipif((major, minor) > HERE, reason=f"needs git {major}.{minor}")


def before_git(major: int, minor: int) -> pytest.MarkDecorator:
    """Skip a test of what older versions cannot do where git is newer."""
    return pytest.mark.skipif((major, minor) <= HERE, reason=f"git {major}.{minor} can do it")
