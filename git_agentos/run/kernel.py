"""The names under which docs/api.md has the commands of runs: `from git_agentos.run.kernel import kernel, spec`."""

from git_agentos.run import commands as kernel
from git_agentos.run import spec

__all__ = ["kernel", "spec"]
