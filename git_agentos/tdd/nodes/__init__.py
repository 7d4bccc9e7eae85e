"""What each node of the graph does. None of them decides where to go: `routing` does, on the state they leave.

Each takes the Site and the state, and returns what changes in the state, its own record in `history` included.

    frame         what is around each: checkpoints, record, who is told
    ground_work   N0, N8: the worktree
    writing       N1, N3: a model writes
    judging       N2, N4, N5: gates and audit
    deciding      N6, N7: a person's word, the merge
"""

from __future__ import annotations

from collections.abc import Mapping

from git_agentos.tdd.nodes import deciding, ground_work, judging, writing
from git_agentos.tdd.nodes.frame import Node
from git_agentos.tdd.state import N0, N1, N2, N3, N4, N5, N6, N7, N8

NODES: Mapping[str, Node] = {
    N0: ground_work.load_context,
    N1: writing.scaffold_tests,
    N2: judging.fail_gate,
    N3: writing.implement,
    N4: judging.pass_gate,
    N5: judging.look_over,
    N6: deciding.human_review,
    N7: deciding.merge,
    N8: ground_work.clean_up,
}
