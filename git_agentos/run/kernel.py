"""The old names of the commands of runs (docs/api.md): `from git_agentos.run.kernel import evidence, kernel, spec`."""

from git_agentos.run import commands as kernel
from git_agentos.run import evidence_store as evidence
from git_agentos.run import spec

__all__ = ["evidence", "kernel", "spec"]
