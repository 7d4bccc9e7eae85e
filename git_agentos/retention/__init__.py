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
rewriting    `forget --path` and `--secret`: no checkpoint is forgotten, but what is in them
redaction    what is to be forgotten inside of checkpoints, and in which objects it is
secret_texts  secrets in bytes: found in any form, and replaced
redacted_timelines, redacted_checkpoint, redacted_attachments  timelines and checkpoints, written again
redacted_fleets  fleets that were fetched, and that are dropped
redacted_runs, redacted_state, redacted_files  evidence, databases and small files, written again
progress     what a rewriting has done so far
remains      what it could not forget, in words
evidence_notes  evidence that a killed process has not finished
leftovers    what killed processes have left in the object store
unfinished   notes of what has begun and did not finish
commands     what the commands and the Python API call
"""
