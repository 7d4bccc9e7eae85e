"""The kernel: what a run does, step by step.

kernel      start, resume, cancel, roll back; looking is handed on from `record.runs`
work        attempts, and what comes next, by the run's state in memory
doing       one step and its judgement; `protected` watches over branches
spec        what a run is to do; `wanted` keeps it, and the wish to end it, while it is at work
children    running a command so that nothing of it is left; `streams` is what it says, without secrets
feedback    what a failed attempt tells the next one
stopping    signals and cancelling; `watcher` is who looks on
"""
