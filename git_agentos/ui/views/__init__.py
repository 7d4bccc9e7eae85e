"""The views, in the order of their numbers.

agents     every worktree of the repository, and what its agent does
timeline   what one agent did, and what each of it changed
conflicts  who conflicts with whom, where, and in which order to merge
runs       runs and workflows: their state, output, evidence, and what is decided about them
approvals  what agents want to do, and may not without a person
"""

from git_agentos.ui.view import View
from git_agentos.ui.views.agents import Agents
from git_agentos.ui.views.approvals import Approvals
from git_agentos.ui.views.conflicts import ConflictsView
from git_agentos.ui.views.runs import Runs
from git_agentos.ui.views.timeline import Timeline

VIEWS: tuple[type[View], ...] = (Agents, Timeline, ConflictsView, Runs, Approvals)
