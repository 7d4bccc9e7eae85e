"""The canonical operations: the table itself, and the page that documents it."""

from __future__ import annotations

import re

import pytest

from git_agentos.guard.configuration.settings import GuardSettings, Rule
from git_agentos.guard.decision import ALLOW, APPROVE, FORBID, Decision, Operation
from git_agentos.guard.operation_table import EFFECT_ROWS
from git_agentos.guard.policy import operations
from git_agentos.guard.policy.operations import OPERATIONS, OperationSpec
from tests.support.env import PROJECT_ROOT


def documented() -> dict[str, list[str]]:
    """Name -> the cells of its row in docs/guard-operations.md, the section's title last."""
    found = {}
    title = ""
    for line in (PROJECT_ROOT / "docs" / "guard-operations.md").read_text().splitlines():
        if line.startswith("## "):
            title = line.removeprefix("## ")
        match = re.match(r"\| `([a-z-]+)` \| (.*) \|\Z", line)
        if match:
            found[match[1]] = [*(cell.strip() for cell in match[2].split(" | ")), title]
    return found


def row(known: OperationSpec) -> list[str]:
    if known.default == ALLOW:
        return [known.covers, known.reason, "Allowed"]
    saved = "all" if known.fully_saved else "part" if known.saves else "—"
    title = {APPROVE: "Needs approval", FORBID: "Forbidden"}[known.default]
    return [known.covers, known.reason, saved, known.instead, title]


def test_the_page_is_the_table() -> None:
    assert documented() == {name: row(known) for name, known in OPERATIONS.items()}


def test_every_operation_has_one_effect_and_the_page_says_which() -> None:
    listed = [name for line in EFFECT_ROWS.strip().splitlines() for name in line.split()[1:]]
    assert sorted(listed) == sorted(OPERATIONS)
    assert {known.effect for known in OPERATIONS.values()} == set(operations.EFFECTS)
    page = (PROJECT_ROOT / "docs" / "guard-operations.md").read_text()
    rows = dict(re.findall(r"^\| ([a-z-]+) \| [^|]* \| (`[^|]*) \|$", page, re.MULTILINE))
    assert {name: effect for effect, text in rows.items() for name in re.findall(r"`([a-z-]+)`", text)} == {
        name: known.effect for name, known in OPERATIONS.items()
    }


@pytest.mark.parametrize("effect", operations.EFFECTS)
def test_effect_decides(effect: str) -> None:
    def recoverable(preset: str, **facts: bool) -> bool:
        return operations.is_effect_recoverable(
            effect, **{"fully_saved": True, "own": True, "limited": True, **facts}, preset=preset
        )

    can_be = effect in ("files", "ignored", "own-history", "shared-refs", "stash")
    assert recoverable("strict") == recoverable("recoverable") == can_be
    assert not recoverable("strict", limited=False)
    assert recoverable("recoverable", limited=False) == can_be
    for preset in ("strict", "recoverable"):
        assert not recoverable(preset, fully_saved=False)
        assert recoverable(preset, own=False) == (effect in ("files", "ignored"))


def test_policy_key_decides_before_effect() -> None:
    amend = Operation("commit-amend", own=True, limited=True)
    assert operations.is_recoverable(amend, GuardSettings())
    for decision in (ALLOW, APPROVE, FORBID):
        keyed = GuardSettings(policy={"commit-amend": Rule(decision, "agentos.policy.commit-amend")})
        assert not operations.is_recoverable(amend, keyed)
        assert operations.decide([amend], keyed, recoverable={amend}).decision == decision
    assert not operations.is_recoverable(amend, GuardSettings(auto={"beforerisky": False}))
    assert not operations.is_recoverable(Operation("commit-amend", own=True), GuardSettings())
    assert operations.is_recoverable(Operation("commit-amend", own=True), GuardSettings(preset="recoverable"))


@pytest.mark.parametrize("known", OPERATIONS.values(), ids=list(OPERATIONS))
def test_every_operation_can_be_configured_and_told(known: OperationSpec) -> None:
    # A git variable name, as it comes back from `git config --list`.
    assert re.fullmatch(r"[a-z][a-z-]*", known.name)
    assert known.covers and known.reason
    assert bool(known.instead) == (known.default != ALLOW)
    assert known.saves or not known.fully_saved


def test_strictest_operation_comes_first_with_reason() -> None:
    found = operations.decide(
        [Operation("push", "origin"), Operation("add"), Operation("push-force", "+main"), Operation("push", "origin")],
        None,
    )
    force = OPERATIONS["push-force"]
    assert found == Decision(
        FORBID, ["push-force", "push", "add"], "push-force", f"{force.reason} (+main)", force.instead
    )


def test_allowed_operation_needs_no_reason() -> None:
    assert operations.decide([Operation("commit")], None) == Decision(ALLOW, ["commit"])


def test_configuration_decides_and_is_named() -> None:
    settings = GuardSettings(
        policy={
            "push": Rule(ALLOW, "agentos.policy.push"),
            "commit": Rule(FORBID, "agentos.policy.commit"),
            "reset-hard": Rule(APPROVE, "agentos.policy.reset-hard"),
        }
    )

    def decided(*names: str) -> tuple[str, str | None]:
        found = operations.decide([Operation(name) for name in names], settings)
        return found.decision, found.rule

    assert decided("push") == (ALLOW, "agentos.policy.push")
    assert decided("push", "commit") == (FORBID, "agentos.policy.commit")
    assert decided("push", "reset-hard") == (APPROVE, "agentos.policy.reset-hard")
    assert decided("clean", "commit")[0] == FORBID
    assert decided() == (ALLOW, None)
    assert operations.decide([Operation("reset-hard"), Operation("commit")], settings).operations == [
        "commit",
        "reset-hard",
    ]
