"""The views, in the order of their numbers.

agents  every worktree of the repository, and what its agent does
"""

from git_agentos.ui.view import View
from git_agentos.ui.views.agents import Agents

VIEWS: tuple[type[View], ...] = (Agents,)
