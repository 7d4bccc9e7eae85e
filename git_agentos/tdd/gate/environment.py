"""What the tests get of the environment: no keys, nothing of git's or ours, nothing that changes how pytest or Python
work.

A variable is a key by its name (`redact.is_secret_name`), by whose it is (those of model, cloud and code-host
providers), or by its value (`redact`). What tests need of these (the password of a database for tests) is named by
agentos.tdd.passEnvironment.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from git_agentos import redact

_NEVER = ("GIT_", "AGENTOS_", "PYTEST_")
# PYTHONOPTIMIZE takes asserts away; the others bring in code, or leave some out.
_OF_PYTHON = (
    "PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONOPTIMIZE PYTHONINSPECT PYTHONSAFEPATH PYTHONBREAKPOINT PYTHONWARNINGS"
    " PYTHONPLATLIBDIR PYTHONEXECUTABLE PYTHONPYCACHEPREFIX PYTHONDEBUG PYTHONVERBOSE __PYVENV_LAUNCHER__"
).split()
_PROVIDERS = tuple(
    (
        "ANTHROPIC_ OPENAI_ AZURE_ AWS_ GOOGLE_ GCP_ GCLOUD_ CLOUDSDK_ GEMINI_ VERTEX_ MISTRAL_ COHERE_ CO_API_ GROQ_"
        " XAI_ DEEPSEEK_ OPENROUTER_ TOGETHER_ FIREWORKS_ REPLICATE_ PERPLEXITY_ PPLX_ HF_ HUGGINGFACE_ HUGGINGFACEHUB_"
        " LANGCHAIN_ LANGSMITH_ LANGGRAPH_ CLAUDE_ CODEX_ CURSOR_ COPILOT_ GH_ GITHUB_ GITLAB_ BITBUCKET_ NPM_TOKEN"
        " TWINE_ SSH_ GPG_ VAULT_ DOCKER_AUTH_ KUBECONFIG NETRC"
    ).split()
)
_HARMLESS = ("PWD", "OLDPWD")  # by their names they could be secret


def clean(base: Mapping[str, str], passed: Iterable[str] = ()) -> dict[str, str]:
    """The variables of `base` that tests get; those named in `passed` whatever they are, but for git's and ours."""
    allowed = set(passed)
    found = {
        name: value
        for name, value in base.items()
        if not name.startswith(_NEVER) and name not in _OF_PYTHON and (name in allowed or not _is_key(name, value))
    }
    found["PYTHONDONTWRITEBYTECODE"] = "1"
    found["PYTHONUNBUFFERED"] = "1"  # what was said is there, also when the process ends at once
    return found


def activated(environment: Mapping[str, str], prefix: str | None) -> dict[str, str]:
    """As it is in a virtual environment at `prefix`; None: in none."""
    found = {name: value for name, value in environment.items() if name != "VIRTUAL_ENV"}
    if prefix is not None:
        found["VIRTUAL_ENV"] = prefix
        rest = [each for each in found.get("PATH", os.defpath).split(os.pathsep) if each]
        found["PATH"] = os.pathsep.join(dict.fromkeys([os.path.join(prefix, "bin"), *rest]))
    return found


def _is_key(name: str, value: str) -> bool:
    if name in _HARMLESS:
        return False
    return name.upper().startswith(_PROVIDERS) or redact.is_secret_name(name) or redact.redact(value)[1] > 0
