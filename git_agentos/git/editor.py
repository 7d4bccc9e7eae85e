"""The user's editor, as git chooses it."""

from __future__ import annotations

import os
import subprocess

from git_agentos.errors import GitCommandError
from git_agentos.git import process, state_dir
from git_agentos.git.location import Location
from git_agentos.util import files


def edit(location: Location, text: bytes, name: str) -> bytes | None:
    """The text as the user has changed it in a file of this name, at the terminal; None if the editor fails."""
    try:
        # As git does: the shell reads the words of the command, which may have options.
        command = process.run(["var", "GIT_EDITOR"], cwd=location.root, env=location.environment()).decode().strip()
    except GitCommandError:
        return None
    with state_dir.scratch(location) as folder:
        path = os.path.join(folder, name)
        with open(path, "wb") as file:
            file.write(text)
        words = ["sh", "-c", f'{command} "$@"', command, path]
        done = subprocess.run(words, cwd=location.root, env=process.user_environment({}), check=False)
        return files.read(path) if done.returncode == 0 else None
