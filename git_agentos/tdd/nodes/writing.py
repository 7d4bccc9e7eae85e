"""N1 and N3: a model writes tests, then code. What it changed is read from git, whatever it says."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence

from git_agentos.checkpoint.open_worktree import OpenWorktree
from git_agentos.checkpoint.restore import commands
from git_agentos.checkpoint.restore.request import RestoreOptions
from git_agentos.tdd import node_run as sites
from git_agentos.tdd.context import prompts
from git_agentos.tdd.gate import frozen_files, pytest_config
from git_agentos.tdd.models import model
from git_agentos.tdd.models.model import IMPLEMENT, SCAFFOLD, Request, Work
from git_agentos.tdd.node_run import Begun, Done, Site, Stopped
from git_agentos.tdd.nodes.frame import Update, do
from git_agentos.tdd.state import N1, N2, N3, N4, N5, ImplementationState

_MOST_SHOWN = 256 << 10  # bytes of a test file that a model is shown, bounded once more in the prompt


def scaffold_tests(site: Site, state: ImplementationState) -> Update:
    """The model writes tests, and stubs for what they call."""
    previous = sites.last(state)
    retries = state.get("scaffold_retry_count", 0) + 1 if previous == N2 else 0
    feedback = state.get("feedback")
    prompt = prompts.scaffold(state["issue_id"], state["lld_content"], state["context_content"], feedback=feedback)

    def work(begun: Begun) -> Done:
        done = _ask(begun, SCAFFOLD, prompt, ())
        done.update |= {"scaffold_retry_count": retries, "red": [], "frozen": {}, "red_checkpoint": None}
        return done

    return do(site, state, N1, work, state["agent"])


def implement(site: Site, state: ImplementationState) -> Update:
    """The model writes code. What is frozen is put back first, if the last try has touched it."""
    previous = sites.last(state)
    retries = state.get("retry_count", 0) + 1 if previous in (N4, N5) else 0

    def work(begun: Begun) -> Done:
        frozen = frozen_files.paths(state["frozen"])
        patterns = frozen_files.patterns(pytest_config.names(begun.here.location.root))
        _put_back(begun)
        prompt = prompts.implement(
            state["issue_id"],
            state["lld_content"],
            state["context_content"],
            # Those that were there before were named by nobody, and are not for the model to see.
            _texts(
                begun.here, [path for path in state.get("changed_files", ()) if frozen_files.is_test(path, patterns)]
            ),
            failures=state.get("test_output", ""),
            feedback=state.get("feedback"),
        )
        done = _ask(begun, IMPLEMENT, prompt, tuple(frozen))
        done.update |= {"retry_count": retries}
        return done

    return do(site, state, N3, work, state["agent"])


def _ask(begun: Begun, what: str, prompt: str, frozen: tuple[str, ...]) -> Done:
    """Have the model do it; what it changed is read from git, and protected branches are looked at."""
    site, state = begun.site, begun.state
    if begun.touched:
        return _written(begun, what, Work(None, "", 0.0, 0))
    chosen = model.choose(state["agent"], begun.here.settings, site.environment)
    request = Request(
        node=what,
        issue_id=state["issue_id"],
        attempt=sum(each["node"] == begun.node for each in state.get("history") or ()),
        prompt=prompt,
        run=begun.run,
        here=begun.here,
        frozen=frozen,
        folder=begun.path,
        show=site.listener.output,
        stop=site.stop,
        mark=state["mark"],
    )
    worked = chosen.work(request)
    if worked.interrupted:
        raise Stopped
    sites.unlock(site, begun.run, killed=False)
    return _written(begun, what, worked)


def _written(begun: Begun, what: str, worked: Work) -> Done:
    """What came of it; moving a protected branch is an error, whatever else was done."""
    touched = sites.violations(begun)
    error = "; ".join(touched) if touched else worked.error
    update: Update = {
        "error_message": error,
        "feedback": None,
        "green": False,
        "tested_before": None,
        "tested_after": None,
        "findings": [],
        "conflicts": [],
        "human_decision": None,
    }
    said = "tests written" if what == SCAFFOLD else "code written"
    if error is not None or worked.exit_code:
        said = error or f"the agent ended with exit code {worked.exit_code}"
    return Done(
        update,
        said,
        exit_code=worked.exit_code,
        output=f"{begun.folder}/stdout",
        tokens_in=worked.tokens_in,
        tokens_out=worked.tokens_out,
        holds=error is None,
    )


def _put_back(begun: Begun) -> None:
    """Bring what was frozen and has changed back to how it was when the red gate held; what is new among it goes."""
    frozen = begun.state["frozen"]
    now = frozen_files.freeze(begun.here.location.root, more=frozen_files.wholly(frozen))
    changed = {name: "" for name in {*frozen, *now} if frozen.get(name) != now.get(name)}
    wanted = [os.fsencode(path) for path in frozen_files.paths(changed)]
    red = begun.state.get("red_checkpoint")
    if not wanted or red is None:
        return
    metadata = begun.here.metadata(trigger="before_restore", description="frozen tests", run_id=begun.run.run_id)
    commands.restore(begun.here, metadata, red, RestoreOptions(paths=wanted))


def _texts(here: OpenWorktree, paths: Sequence[str]) -> Mapping[str, str]:
    found = {}
    for path in paths:
        with contextlib.suppress(OSError, UnicodeDecodeError):
            descriptor = os.open(os.path.join(here.location.root, path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(descriptor, "rb") as file:
                if (size := os.fstat(descriptor).st_size) > _MOST_SHOWN:
                    found[path] = f"[… {size:,} bytes, too many to be shown …]"
                else:
                    found[path] = file.read(_MOST_SHOWN).decode("utf-8")
    return found
