"""The hooks that git runs before something and that stop it: pre-commit, pre-rebase, pre-merge-commit, pre-push."""

from __future__ import annotations

import os
import sys

from git_agentos.guard.assessment import assessor
from git_agentos.guard.decision import Assessment
from git_agentos.hooks import passed, record, subject, verdict
from git_agentos.hooks.called import Called
from git_agentos.hooks.subject import Subject


def pre_commit(called: Called) -> int:
    """Judge a commit, by the branch and by the index that is being committed; then record the state before it."""
    asked = subject.of(called.pid)

    def judged(asked: Subject) -> Assessment:
        return assessor.assess_commit(asked.with_index(), asked.who, asked.settings)

    code, _ = verdict.settle(asked, judged, layer="hook", covers=passed.FILES)
    if code == verdict.GO_ON:
        record.before_commit(asked)
    return code


def pre_rebase(called: Called) -> int:
    """Judge a rebase; nothing has happened yet."""
    return _whole(called.pid)


def pre_merge_commit(called: Called) -> int:
    """Judge a merge that is about to be committed; it is in the worktree already."""
    return _whole(called.pid)


def _whole(pid: int) -> int:
    def judged(asked: Subject) -> Assessment:
        return assessor.assess_git(asked.call, asked.who, asked.settings)

    code, _ = verdict.settle(subject.of(pid), judged, layer="hook", covers=passed.FILES)
    return code


def pre_push(called: Called) -> int:
    """Judge a push: `args` are the remote's name and URL, stdin has `<local ref> <oid> <remote ref> <oid>` for each ref
    that is pushed, and the command line what stdin does not tell."""
    name, url = (*called.args, "", "")[:2]
    lines = [os.fsdecode(line) for line in sys.stdin.buffer.read().split(b"\n") if line]

    def judged(asked: Subject) -> Assessment:
        return assessor.assess_push(lines, name or url, asked.call, asked.who, asked.settings)

    code, _ = verdict.settle(subject.of(called.pid), judged, layer="hook", covers=passed.FILES)
    return code
