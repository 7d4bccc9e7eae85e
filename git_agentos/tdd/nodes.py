"""What each node of the graph does. None of them decides where to go: `routing` does, on the state they leave.

Each takes the Site and the state, and returns what changes in the state, its own record in `history` included.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from git_agentos import log
from git_agentos.checkpoint import capture, restore
from git_agentos.checkpoint.context import Context
from git_agentos.checkpoint.goal import Options
from git_agentos.checkpoint.state import State
from git_agentos.errors import AgentosError, LockedError, RunError, StorageError
from git_agentos.git import trees
from git_agentos.run import landing, workspace
from git_agentos.run.context import worktree_id
from git_agentos.run.kernel import protected
from git_agentos.run.kernel.doing import take_back
from git_agentos.run.record import evidence as folders
from git_agentos.run.record import runs
from git_agentos.run.rollback import mend
from git_agentos.run.workspace import GitWorktreeWorkspaceService
from git_agentos.store import location as places
from git_agentos.tdd import site as sites
from git_agentos.tdd.arbiter import audit, freeze, gates, ground, unseen
from git_agentos.tdd.context import prompts
from git_agentos.tdd.looking import PLACE
from git_agentos.tdd.models import model
from git_agentos.tdd.models.model import IMPLEMENT, SCAFFOLD, Request
from git_agentos.tdd.routing import ROUTES
from git_agentos.tdd.site import Begun, Done, Site, Stopped
from git_agentos.tdd.state import (
    ABORT,
    N0,
    N1,
    N2,
    N3,
    N4,
    N5,
    N6,
    N7,
    N8,
    PASSED,
    RETRY,
    TIMED_OUT,
    ImplementationState,
)
from git_agentos.worktree import intent, place, record, remove, repair

_MOST_SHOWN = 256 << 10  # bytes of a test file that a model is shown, bounded once more in the prompt
_MOST_OUTPUT = 64 << 10  # characters of test output in the state; all of it is in the evidence

Update = dict[str, Any]
Node = Callable[[Site, ImplementationState], Update]


# -- N0: the worktree -------------------------------------------------------------------------------------------------


def load_context(site: Site, state: ImplementationState) -> Update:
    """Make the worktree for what was read and checked before (`service.start`): nothing is made where that is wrong."""
    began = time.monotonic()
    service = GitWorktreeWorkspaceService(
        site.context,
        base_ref=state["into"],
        task_id=state["issue_id"],
        guard=True,
        protected=state["protected"],
        run_id=site.id,
        branch=state["branch"],
        tool="tdd",
        held=True,
    )
    run = service.current_context()
    if run is None:
        try:
            with site.stop.at_once():
                run = service.prepare_pre_run(run_id=site.id)
        except KeyboardInterrupt:
            raise Stopped from None
    kept = site.evidence()
    if not places.is_url(site.place):
        kept.put(PLACE, json.dumps({"database": site.place}).encode() + b"\n")
    if not any(each["event"] == "attempt" for each in kept.events()):
        kept.event("attempt", number=1, point=None)
    here = workspace.inner(site.context, run)
    log.note(here, "action", f"tdd {site.id} begun", commit=run.base_sha, task_id=run.task_id)
    saved = sites.save(here, run, f"tdd {site.id}: after {N0}", node=N0, phase="after")
    update: Update = {"worktree_path": run.worktree_path, "base_sha": run.base_sha}
    count = len(state.get("context_paths", ())) + 1
    files = "1 document" if count == 1 else f"{count} documents"
    said = f"{files} read, worktree ready at {run.base_sha[:12]}"
    return _ended(site, state, N0, update, said, began, checkpoint_after=saved.checkpoint.id)


# -- N1, N3: a model writes -------------------------------------------------------------------------------------------


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

    return _node(site, state, N1, work, state["agent"])


def implement(site: Site, state: ImplementationState) -> Update:
    """The model writes code. What is frozen is put back first, if the last try has touched it."""
    previous = sites.last(state)
    retries = state.get("retry_count", 0) + 1 if previous in (N4, N5) else 0

    def work(begun: Begun) -> Done:
        frozen = freeze.paths(state["frozen"])
        _put_back(begun)
        prompt = prompts.implement(
            state["issue_id"],
            state["lld_content"],
            state["context_content"],
            # Those that were there before were named by nobody, and are not for the model to see.
            _texts(begun.here, [path for path in state.get("changed_files", ()) if freeze.is_test(path)]),
            failures=state.get("test_output", ""),
            feedback=state.get("feedback"),
        )
        done = _ask(begun, IMPLEMENT, prompt, tuple(frozen))
        done.update |= {"retry_count": retries}
        return done

    return _node(site, state, N3, work, state["agent"])


def _ask(begun: Begun, what: str, prompt: str, frozen: tuple[str, ...]) -> Done:
    """Have the model do it; what it changed is read from git, and protected branches are looked at."""
    site, state = begun.site, begun.state
    branches = protected.look(site.context.location, state["protected"])
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
    with contextlib.suppress(RunError):  # it has wrecked the worktree
        mend.unlock(workspace.inner(site.context, begun.run).location, place.HEADS + begun.run.branch_name)
    touched = protected.violations(site.context, begun.run, branches, state["protected"])
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
    frozen, now = begun.state["frozen"], freeze.freeze(begun.here.location.root)
    changed = {name: "" for name in {*frozen, *now} if frozen.get(name) != now.get(name)}
    wanted = [os.fsencode(path) for path in freeze.paths(changed)]
    red = begun.state.get("red_checkpoint")
    if not wanted or red is None:
        return
    origin = begun.here.origin(trigger="before_restore", description="frozen tests", run_id=begun.run.run_id)
    restore.restore(begun.here.repository, begun.here.settings, origin, red, Options(paths=wanted))


def _texts(here: Context, paths: Sequence[str]) -> Mapping[str, str]:
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


# -- N2, N4: the gates ------------------------------------------------------------------------------------------------


def fail_gate(site: Site, state: ImplementationState) -> Update:
    """The tests have to fail, for the right reason. What they are is frozen then."""

    def work(begun: Begun) -> Done:
        verdict = gates.red(
            _ground(begun),
            state["base_sha"],
            state.get("tests", ()),
            work=_work(begun),
            output=os.path.join(begun.path, "stdout"),
            show=site.listener.output,
            stop=site.stop,
        )
        done = _judged(begun, verdict)
        if verdict.holds:
            done.update |= {
                "red": list(verdict.red),
                "frozen": dict(verdict.frozen),
                "plugins": list(verdict.plugins),
                "skipped": list(verdict.skipped),
                "red_checkpoint": _checkpoint(begun),
            }
            done.files, done.red = verdict.frozen, verdict.red
            done.summary = f"red: {_count(len(verdict.red), 'new test')} failed, as it should be"
        return done

    return _node(site, state, N2, work, "pytest")


def pass_gate(site: Site, state: ImplementationState) -> Update:
    """The tests that were red have to pass, and no other may fail."""

    def work(begun: Begun) -> Done:
        verdict = gates.green(
            _ground(begun),
            state["red"],
            state["frozen"],
            state.get("plugins", ()),
            state.get("tests", ()),
            skipped=state.get("skipped"),
            work=_work(begun),
            output=os.path.join(begun.path, "stdout"),
            show=site.listener.output,
            stop=site.stop,
        )
        done = _judged(begun, verdict)
        done.update |= {"green": False, "conflicts": [], "human_decision": None}
        if verdict.holds:
            # What validation left behind is told from what was validated by these two (`run.landing`).
            done.update |= {"tested_before": begun.checkpoint, "tested_after": _checkpoint(begun)}
            done.summary = f"green: {_count(len(state['red']), 'new test')} passed, and nothing else broke"
        return done

    return _node(site, state, N4, work, "pytest")


def _judged(begun: Begun, verdict: gates.Verdict) -> Done:
    tested = verdict.tested
    if any(each is not None and each.interrupted for each in (tested, verdict.canary)):
        raise Stopped
    output = tested.output[-_MOST_OUTPUT:] if tested is not None else ""
    feedback = None
    if not verdict.holds:
        feedback = f"{verdict.feedback}\n\n{output}".strip() if begun.node == N2 else verdict.feedback
    update = {
        "test_output": output,
        "test_exit_code": verdict.exit_code,
        "vetoes": list(verdict.vetoes),
        "collect_error": verdict.collect_error,
        "feedback": feedback,
        "error_message": None,
    }
    return Done(
        update,
        _how(verdict),
        exit_code=verdict.exit_code,
        vetoes=verdict.vetoes,
        output=f"{begun.folder}/stdout" if tested is not None else None,
        holds=verdict.holds,
    )


def _how(verdict: gates.Verdict) -> str:
    """One line on a gate that does not hold."""
    gate = "red" if verdict.gate == "red" else "green"
    code = verdict.exit_code
    if code is None:
        return f"not {gate}: vetoed before the tests were run ({_count(len(verdict.vetoes), 'veto', 'vetoes')})"
    how = "the tests took too long" if code == TIMED_OUT else f"exit code {code}"
    if gate == "red" and code == PASSED:
        how = "tests passed prematurely (exit code 0)"
    if verdict.collect_error:
        how += " while collecting"
    more = f", {_count(len(verdict.vetoes), 'veto', 'vetoes')}" if verdict.vetoes else ""
    return f"not {gate}: {how}{more}"


def _ground(begun: Begun) -> ground.Ground:
    state = begun.state
    return ground.of(
        begun.here,
        begun.site.environment,
        timeout=state["test_timeout"],
        sandbox=state["sandbox"],
        mark=state["mark"],
    )


def _work(begun: Begun) -> unseen.Work:
    """What would be committed, and since when it is being worked on: the first node has made the worktree."""
    ready = next(each for each in begun.state.get("history") or () if each["node"] == N0)
    return unseen.Work(begun.tree, datetime.fromisoformat(ready["ended_at"]).timestamp())


def _checkpoint(begun: Begun) -> str:
    """The worktree as it is now, saved."""
    here = workspace.inner(begun.site.context, begun.run)
    said = f"tdd {begun.site.id}: {begun.node} holds"
    return sites.save(here, begun.run, said, node=begun.node, phase="holds").checkpoint.id


# -- N5 to N8 ---------------------------------------------------------------------------------------------------------


def look_over(site: Site, state: ImplementationState) -> Update:
    """Lint, and a look for tampering, in what was changed."""

    def work(begun: Begun) -> Done:
        changed = _changed(begun.here, state["base_sha"])
        found = audit.audit(_ground(begun), state["base_sha"], changed)
        lost = [
            f"{os.fsdecode(each.path)}: it would not be merged, since it is not saved: {each.reason}"
            for each in _capture(begun.here).skipped
        ]
        told = [*map(str, found), *lost]
        tampered = bool(lost) or any(each.kind == "tamper" for each in found)
        feedback = "The audit found, in what you wrote:\n" + "\n".join(told) if told else None
        update: Update = {"findings": told, "green": not tampered, "changed_files": changed, "feedback": feedback}
        said = "nothing found" if not told else f"{_count(len(told), 'finding')}"
        return Done(update, said, vetoes=told, holds=not told)

    return _node(site, state, N5, work, None)


def human_review(site: Site, state: ImplementationState) -> Update:
    """Wait for a person's word. Nothing but that stands here: a node that waits is run again from its top."""
    from git_agentos.tdd.graph import ask

    word = ask({"id": site.id, "green": bool(state.get("green"))})
    began = time.monotonic()
    update: Update = {"human_decision": word, "error_message": None if word == RETRY else state.get("error_message")}
    if word == RETRY:
        update |= {"retry_count": 0} if state.get("red") else {"scaffold_retry_count": 0}
    return _ended(site, state, N6, update, f"'{word}'", began)


def merge(site: Site, state: ImplementationState) -> Update:
    """Commit what was tested, and merge it: in memory first, all or nothing."""
    began = time.monotonic()
    before, after = state.get("tested_before"), state.get("tested_after")
    assert before is not None
    assert after is not None
    run, saved = site.run(), None
    try:
        here = workspace.inner(site.context, run)
        saved = sites.save(here, run, f"tdd {site.id}: before {N7}", node=N7, phase="before").checkpoint.id
        made = landing.land(site.context, here, run, before, after, into=state["into"], message=_message(site, state))
    except (LockedError, StorageError):
        raise  # nothing that a person has to decide about
    except AgentosError as error:
        why = f"{error.message}; {error.hint}" if error.hint else error.message
        return _ended(
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
        return _ended(site, state, N7, update, "not merged: conflicts", began, checkpoint_before=saved)
    commit = made.merge_commit or made.before
    _tell(site, "accepted", into=made.target, merge_commit=commit)
    update = {"merge_commit": commit, "conflicts": [], "error_message": None}
    said = f"merged into '{made.target}' as {commit[:12]}"
    return _ended(site, state, N7, update, said, began, checkpoint_before=saved)


def clean_up(site: Site, state: ImplementationState) -> Update:
    """Save everything, seal the evidence, and remove the worktree and its branch. `--revive` brings them back."""
    began = time.monotonic()
    id_ = worktree_id(site.id)
    aborted = state.get("human_decision") == ABORT and not state.get("merge_commit")
    if aborted:
        _tell(site, "ended", state="cancelled", reason="aborted")
    final = state.get("final_checkpoint")
    if any(each.id == id_ for each in intent.pending(site.context.location)):  # killed while it removed the worktree
        repair.repair(site.context, id_)
    if any(each.id == id_ for each in record.managed(site.context.location.common_dir)):
        run, kept = site.run(), site.evidence()
        try:
            here = workspace.inner(site.context, run)
        except RunError:  # an agent has wrecked it: it is made again, and what can be read is saved
            take_back(site.context, run, kept, _last_checkpoint(state))
            here = workspace.inner(site.context, run)
        log.note(here, "action", f"tdd {site.id} {'aborted' if aborted else 'merged'}", task_id=run.task_id)
        folders.seal(here, kept, runs.told(site.context, kept))
        final = remove.remove(site.context, id_, delete_branch=True).checkpoint
    said = f"worktree and branch removed, saved as {final[:12]}" if final else "worktree and branch removed"
    return _ended(site, state, N8, {"final_checkpoint": final}, said, began, checkpoint_after=final)


def _last_checkpoint(state: ImplementationState) -> str:
    """How the worktree was last seen; the first node has one."""
    seen = (each["checkpoint_after"] for each in reversed(state.get("history") or []))
    return next(each for each in seen if each is not None)


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


def _tell(site: Site, kind: str, **fields: Any) -> None:
    """An event, unless it is there: a node may be done again."""
    kept = site.evidence()
    if not any(each["event"] == kind for each in kept.events()):
        kept.event(kind, **fields)


# -- around each ------------------------------------------------------------------------------------------------------


def _node(
    site: Site, state: ImplementationState, node: str, work: Callable[[Begun], Done], command: str | None
) -> Update:
    """Do a node's work between two checkpoints, and put it on record."""
    if site.stop():
        raise Stopped
    site.listener.node_begins(state, node)
    begun = sites.begin(site, state, node, command)
    done = work(begun)
    if site.stop():
        raise Stopped
    next_ = ROUTES[node][0]({**state, **done.update})
    told = sites.end(begun, done, next_)
    if node in (N1, N3):
        here = workspace.inner(site.context, begun.run)
        done.update["changed_files"] = _changed(here, state["base_sha"])
    site.listener.node_ended(_after(state, done.update), told)
    return {**done.update, "history": [told]}


def _ended(
    site: Site,
    state: ImplementationState,
    node: str,
    update: Update,
    summary: str,
    began: float,
    **more: Any,
) -> Update:
    """Put a node on record that is no step."""
    next_ = ROUTES[node][0]({**state, **update})
    told = sites.plain(state, node, summary, next_, began, **more)
    site.listener.node_ended(_after(state, update), told)
    return {**update, "history": [told]}


def _after(state: ImplementationState, update: Update) -> ImplementationState:
    return {**state, **update}  # type: ignore[typeddict-item]  # the keys are those of the state


def _changed(here: Context, base: str) -> list[str]:
    """What differs from the base, visible files alone."""
    repository = here.repository
    with repository.writer() as writer:
        found = trees.diff(writer, repository.commit_tree(base), _capture(here).visible_tree)
    return [os.fsdecode(path) for path in sorted(found)]


def _capture(here: Context) -> State:
    """The worktree as it is now."""
    with here.repository.writer() as writer:
        state = capture.capture(here.repository, writer, here.settings)
        writer.flush()
    return state


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number} {one}" if number == 1 else f"{number} {many or one + 's'}"


NODES: Mapping[str, Node] = {
    N0: load_context,
    N1: scaffold_tests,
    N2: fail_gate,
    N3: implement,
    N4: pass_gate,
    N5: look_over,
    N6: human_review,
    N7: merge,
    N8: clean_up,
}
