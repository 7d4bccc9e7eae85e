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

from tests.support import git_version, ref_storage
from tests.support.guard.layer_matrix import CASES, KEPT, LAYERS, LOST, SAVED, MatrixCase, MatrixProject, documented
from tests.support.sampling import EXHAUSTIVE

# A folder for what was found, of which `python -m tests.support.guard.layer_matrix` makes the page.
_WRITING = os.environ.get("AGENTOS_TEST_WRITE")
_EVERY = bool(_WRITING) or EXHAUSTIVE


# What each layer makes of them where refs are in reftables, if it is something else there.
_IN_REFTABLES: dict[str, dict[str, str]] = {
    "git branch -M topic old": {},
    "git branch -m topic elsewhere": {},
    "git branch -D topic": {},
    "git update-ref refs/heads/topic main": {},
    "git commit -q --amend -m other": {},
    "git stash clear": {},
    "git gc --prune=now": {"hooks": LOST},
    # There, it leaves the reflogs of other worktrees' HEADs.
    "git reflog drop --all": {"no guard": KEPT, "fsmonitor": SAVED, "hooks": SAVED},
}


def layers_of(case: MatrixCase) -> tuple[str, ...]:
    """The layers that a command is tried against in this run."""
    return LAYERS if _EVERY else (LAYERS[CASES.index(case) % len(LAYERS)],)


@pytest.fixture(scope="module")
def field(tmp_path_factory: pytest.TempPathFactory) -> MatrixProject:
    return _project(tmp_path_factory.mktemp("guard"), ref_storage.by_default())


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> MatrixProject:
    """The same with reftables."""
    ref_storage.require()
    return _project(tmp_path_factory.mktemp("tables"), ref_storage.REFTABLE)


def _project(root: Path, ref_format: str) -> MatrixProject:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIT_DEFAULT_REF_FORMAT", ref_format)
        patch.chdir(root)
        patch.setenv("GIT_CEILING_DIRECTORIES", str(root))
        # `git gc` forgets what reflogs have from long ago.
        for name in ("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"):
            patch.delenv(name, raising=False)
        return MatrixProject(root)


@pytest.mark.sampled(one_in=17)  # no multiple of 2 or 3: each layer has its turn
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.text[:50])
def test_a_destructive_command(case: MatrixCase, field: MatrixProject, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the page says of it is what happens, layer by layer."""
    if _WRITING and Path(_WRITING, f"{CASES.index(case)}.json").exists():
        return  # a run before has found it out
    if case.needs > git_version.HERE:
        pytest.skip("needs git {}.{}".format(*case.needs))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(field._root))
    found = {layer: field.attempt(case, layer) for layer in layers_of(case)}
    if _WRITING:
        Path(_WRITING, f"{CASES.index(case)}.json").write_text(json.dumps(found))
    else:
        told = documented()[case.text]
        if ref_storage.by_default() == ref_storage.REFTABLE:
            told = told | _IN_REFTABLES.get(case.text, {})
        assert found == {layer: told[layer] for layer in found}


@pytest.mark.skipif(bool(_WRITING), reason="the page is being made")
@pytest.mark.parametrize("layer", LAYERS)
def test_where_refs_are_in_reftables(layer: str, tables: MatrixProject) -> None:
    told = documented()
    cases = [case for case in CASES if case.text in _IN_REFTABLES and case.needs <= git_version.HERE]
    wanted = {case.text: _IN_REFTABLES[case.text].get(layer, told[case.text][layer]) for case in cases}
    assert {case.text: tables.attempt(case, layer) for case in cases} == wanted


@pytest.mark.skipif(bool(_WRITING), reason="the page is being made")
def test_the_page_names_every_command() -> None:
    assert list(documented()) == [case.text for case in CASES]


def lost(layer: str) -> list[MatrixCase]:
    """The commands that lose something in spite of a layer, by the page."""
    page = documented()
    return [case for case in CASES if page[case.text][layer] == LOST]


@pytest.mark.skipif(bool(_WRITING), reason="the page is being made")
def test_losses_with_all_layers_are_documented() -> None:
    """docs/security.md explains these, and no others: git by its path, with the layers of the worktree switched off.
    What a shell writes without git is seen by a harness alone."""
    by_shell = re.compile(r"> [\w./]+$|\| tee |\| xargs .* mv ")
    found = [case.text for case in lost("together") if case.family != "files, by the shell"]
    assert [text for text in found if not by_shell.search(text)] == [
        "{git} -c core.fsmonitor= -c core.hooksPath=/dev/null reset --hard",
        "{git} -c core.fsmonitor=false reset --hard HEAD~1",
        "env -i PATH=/usr/bin:/bin {git} -c core.fsmonitor= reset --hard",
    ]


@pytest.mark.skipif(bool(_WRITING), reason="the page is being made")
def test_losses_with_a_harness_are_documented() -> None:
    """docs/security.md explains these, and no others: entries of the stash that the hooks keep, a file of another
    worktree that only a program's output names, and an ignored file that a script deletes."""
    assert [case.text for case in lost("harness")] == [
        "git stash push -aq && git stash clear",
        "ls {main}/*.txt | xargs rm -f",
        "make -s -f <(printf 'clean:\\n\\trm -rf drafts build\\n') clean",
    ]
