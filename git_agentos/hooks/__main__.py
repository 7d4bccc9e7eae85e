"""`python -I -m git_agentos.hooks NAME GIT-PID ARG…`, as the scripts start it."""

import sys

from git_agentos.hooks.entry import main

sys.exit(main(sys.argv[1:]))
