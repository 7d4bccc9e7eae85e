"""Feedback for the next attempt: how the last one failed, and the end of its output."""

from __future__ import annotations

from git_agentos.run.events import NO_CHANGES, PROTECTED, TIMED_OUT, Step
from git_agentos.run.evidence import Evidence

VARIABLE = "AGENTOS_FEEDBACK_FILE"
_MAX_BYTES = 16 << 10


def name_of(attempt: int) -> str:
    """The file for an attempt, in the evidence of the run."""
    return f"feedback-{attempt}.txt"


def write(evidence: Evidence, attempt: int, failed: Step) -> None:
    """Write the feedback for attempt number `attempt`; `failed` is the step with which the one before it ended."""
    out, err = (evidence.read(name) or b"" if name is not None else b"" for name in (failed.stdout, failed.stderr))
    text = "\n".join([how(failed), ""]).encode("utf-8", "replace") + last_part(out, err)
    evidence.put(name_of(attempt), text, vouched=False)  # the agent may read it, and write to it


def how(failed: Step) -> str:
    """One line on how a step failed."""
    what = f"step {failed.n} ({failed.kind})"
    command = f": {' '.join(failed.command.split())}" if failed.command else ""
    detail = f" ({failed.detail})" if failed.detail else ""
    if failed.outcome == PROTECTED:
        return f"{what} touched a protected branch{detail}{command}"
    if failed.outcome == TIMED_OUT:
        return f"{what} ran out of time{detail}{command}"
    if failed.outcome == NO_CHANGES:
        nothing = f"no file that git would commit{detail}" if detail else "nothing"
        return f"{what} exited with 0, but changed {nothing}{command}"
    return f"{what} failed with exit code {failed.exit_code}{detail}{command}"


def last_part(out: bytes, err: bytes) -> bytes:
    """The last 16 KiB of both, stdout first; each has half of it, and what the other leaves."""
    half = _MAX_BYTES // 2
    of_err = min(len(err), max(half, _MAX_BYTES - len(out)))
    of_out = min(len(out), _MAX_BYTES - of_err)
    parts = [data[len(data) - size :] for data, size in ((out, of_out), (err, of_err)) if size]
    return b"".join(part if part.endswith(b"\n") else part + b"\n" for part in parts)
