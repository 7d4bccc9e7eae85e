"""What the core.fsmonitor hook prints where the user has no fsmonitor: what changed since git's token, by the daemon.

    python -I -S -c "import sys; sys.path.insert(0, 'PATH'); from git_agentos.watch.fsmonitor import main; main()"
    GUARD TOKEN

The format is that of version 2 (githooks(5), fsmonitor-watchman). With exit code 1, git looks at the files itself.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Print the answer for the worktree that is the current folder; `GUARD` is the guard's folder in its repository."""
    from git_agentos import __version__
    from git_agentos.watch import client, place

    try:
        guard, token = (*os.fsencode("\0".join(sys.argv[1:3])).split(b"\0"), b"")[:2]
        common_dir = os.fsdecode(os.path.dirname(os.path.dirname(guard)))
        answer = client.ask(common_dir, __version__, "changes", os.getcwdb(), token)
        while answer:
            answer = answer[os.write(1, answer) :]
    except client.NotRunning:
        place.forget_watched(os.environ.get("GIT_DIR", ".git"))
        sys.exit(1)
    except (client.NoAnswer, OSError):
        sys.exit(1)
