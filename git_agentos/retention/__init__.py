"""Forgetting checkpoints, and what they take on disk.

rules        which checkpoints are kept, in restic's words
protection   which ones no rule forgets
plan         what becomes of a timeline: pure, from its commits
chain        a timeline that is written again without some checkpoints
forgetting   `forget`: all of it, so that a kill at any moment loses nothing
pending      notes of what is to be deleted, for the next `forget` where one was killed
freeing      deleting what nothing needs any more
automatic    `agentos.retention` and `agentos.diskBudget`, applied in the background
storage      what takes room, and what forgetting would free
commands     what the commands and the Python API call
"""
