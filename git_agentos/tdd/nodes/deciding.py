"""N6 and N7: a person's word, and the merge."""

from __future__ import annotations

import os
import time
from dataclasses import asdict

from git_agentos.errors import AgentosError, LockedError, StorageError
from git_agentos.run import accept
from git_agentos.run.context import worktree_id
from git_agentos.run.evidence import Evidence
from git_agentos.run.journal import Tampered
from git_agentos.run.snapshot import run_context
from git_agentos.tdd import node_run as sites
from git_agentos.tdd.node_run import Site
from git_agentos.tdd.nodes.frame import Update, ended, tell
from git_agentos.tdd.state import N6, N7, RETRY, ImplementationState


def human_review(site: Site, state: ImplementationState) -> Update:
    """Wait for a person's word. Nothing but that stands here: a node that waits is run again from its top."""
    from git_agentos.tdd.graph import ask

    word = ask({"id": site.id, "green": bool(state.get("green"))})
    began = time.monotonic()
    update: Update = {"human_decision": word, "error_message": None if word == RETRY else state.get("error_message")}
    if word == RETRY:
        # The person has seen the vetoes: an interpreter that was changed since the beginning is as it shall be.
        update |= {"retry_count": 0} if state.get("red") else {"scaffold_retry_count": 0, "python": None}
    return ended(site, state, N6, update, f"'{word}'", began)


def merge(site: Site, state: ImplementationState) -> Update:
    """Commit what was tested, and merge it: in memory first, all or nothing."""
    began = time.monotonic()
    before, after = state.get("tested_before"), state.get("tested_after")
    assert before is not None
    assert after is not None
    run, kept, saved = site.run(), site.evidence(), None
    sites.reached(kept, state)
    try:
        here = run_context(site.context, run)
        saved = sites.save(here, run, f"tdd {site.id}: before {N7}", node=N7, phase="before").checkpoint.id
        made = accept.merge_validated(
            site.context,
            here,
            run,
            before,
            after,
            into=state["into"],
            message=_message(site, state),
            check=lambda: _check(kept),
        )
    except (LockedError, StorageError, Tampered):
        raise  # nothing that a person has to decide about
    except AgentosError as error:
        why = f"{error.message}; {error.hint}" if error.hint else error.message
        return ended(
            site,
            state,
            N7,
            {"error_message": why, "conflicts": [], "merge_commit": None},
            f"not merged: {error.message}",
            began,
            checkpoint_before=saved,
        )
    if made.conflicts:
        told = [asdict(each) for each in made.conflicts]
        files = sorted({path for each in made.conflicts for path in each.files})
        why = f"'{made.target}' has moved on, and conflicts in {', '.join(files)}"
        update: Update = {"conflicts": told, "error_message": why, "merge_commit": None}
        return ended(site, state, N7, update, "not merged: conflicts", began, checkpoint_before=saved)
    commit = made.merge_commit or made.before
    tell(site, "accepted", into=made.target, merge_commit=commit)
    update = {"merge_commit": commit, "conflicts": [], "error_message": None}
    said = f"merged into '{made.target}' as {commit[:12]}"
    return ended(site, state, N7, update, said, began, checkpoint_before=saved)


def _check(kept: Evidence) -> None:
    """Tampered where the record of the run, or a file that it names, is not as it was written."""
    kept.check()
    kept.check_files()


def _message(site: Site, state: ImplementationState) -> bytes:
    issue = " ".join(state["issue_id"].split())
    lines = [
        f"feat: issue {issue}",
        "",
        f"Tests first, by git agentos tdd ({site.id}):",
        *(f"  {each}" for each in state["red"][:50]),
        "",
        f"Agentos-Agent: {worktree_id(site.id)}",
        f"Agentos-Task: {issue}",
    ]
    return os.fsencode("\n".join(lines) + "\n")
