"""The views, in the order of their numbers.

agents    every worktree of the repository, and what its agent does
timeline  what one agent did, and what each of it changed
"""

from git_agentos.ui.view import View
from git_agentos.ui.views.agents import Agents
from git_agentos.ui.views.timeline import Timeline

VIEWS: tuple[type[View], ...] = (Agents, Timeline)
