"""`python -m bench`: the same as `python bench/run.py --all`."""

import os
import sys

# The harness's modules import each other as scripts do, from the folder they lie in.
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from run import main

sys.exit(main(sys.argv[1:] or ["--all"]))
