"""Destructive commands, run for real against each layer of the guard: docs/guard-coverage.md is what comes out.

Every command is tried against one of the layers by turns, all of them together being one; with
`AGENTOS_TEST_EXHAUSTIVE=1` (`make soak`) against each. `make guard-coverage` does that and writes the page again.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from tests.guard.matrix import CASES, LAYERS, LOST, PAGE, Case, Field
from tests.support.exhaustive import EXHAUSTIVE

# A folder for what was found, of which `python -m tests.guard.matrix` makes the page.
_WRITING = os.environ.get("AGENTOS_TEST_WRITE")
_EVERY = bool(_WRITING) or EXHAUSTIVE


def layers_of(case: Case) -> tuple[str, ...]:
    """The layers that a command is tried against in this run."""
    return LAYERS if _EVERY else (LAYERS[CASES.index(case) % len(LAYERS)],)


@pytest.fixture(scope="module")
def field(tmp_path_factory: pytest.TempPathFactory) -> Field:
    root = tmp_path_factory.mktemp("guard")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        patch.setenv("GIT_CEILING_DIRECTORIES", str(root))
        # `git gc` forgets what reflogs have from long ago.
        for name in ("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"):
            patch.delenv(name, raising=False)
        return Field(root)


def documented() -> dict[str, list[str]]:
    """Command -> outcomes by layer, as the page has them."""
    rows = re.findall(r"^\| `(.+)` \| (.+) \|$", PAGE.read_text(), re.MULTILINE)
    return {text.replace("\\|", "|").replace(" ⏎ ", "\n"): cells.split(" | ") for text, cells in rows}


@pytest.mark.sampled(one_in=17)  # no multiple of 2 or 3: each layer has its turn
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.text[:50])
def test_a_destructive_command(case: Case, field: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the page says of it is what happens, layer by layer."""
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(field._root))
    found = {layer: field.attempt(case, layer) for layer in layers_of(case)}
    if _WRITING:
        Path(_WRITING, f"{CASES.index(case)}.json").write_text(json.dumps(found))
    else:
        told = dict(zip(LAYERS, documented()[case.text], strict=True))
        assert found == {layer: told[layer] for layer in found}


@pytest.mark.skipif(bool(_WRITING), reason="the page is being made")
def test_the_page_names_every_command() -> None:
    assert list(documented()) == [case.text for case in CASES]


@pytest.mark.skipif(bool(_WRITING), reason="the page is being made")
def test_all_layers_together_lose_nothing_but_what_is_named() -> None:
    """The gaps that docs/security.md explains, and no others."""
    gaps = [text for text, cells in documented().items() if cells[-1] == LOST]
    assert gaps == ['rm -rf "$(git rev-parse --git-dir)"', "rm -rf {common}", "rm -rf drafts untracked.txt"]
