"""Fleets: runs on many machines, by an engine that exists. The engine decides who runs what; git decides which result
counts.

names           ids of fleets and tasks, and the refs that they have on the remote and here
tasks           the file of tasks, and the form in which it is recorded
records         what the refs lead to: the tasks, what a task that runs has reached, its result
remote          refs of the remote: fetched, created and replaced by compare-and-swap, settled in one atomic push
fetches         fetches into one repository, and git's lock files that killed ones have left there
folded          the results of a fleet that was ended, in one chain
contents        what a fleet has, by what was fetched
prepared        what is submitted, looked at before anything is started
submission      tasks recorded on the remote, and workers started until each has a result
status          what became of each task, by what was fetched
logs            the output of a task's commands, as the remote has it
cancellation    tasks that get a result which says that they were cancelled, or lost
verification    whether a result is what a worker has made
collection      bringing results into this repository
worker          does one task, in a clone of its machine (`clones`); `attempts` notes what was begun, `clearing`
                removes it
kinds           what a task is: commands, or a workflow of `tdd`
evidence        what is pushed of a run, without secrets; `progress` says on the remote how far it is
change_size     how large the change of a task is
acceptance      merging what has passed, in the order of least conflict
ending          one ref for all results of a fleet that is over
engines         where workers are started: one module for each engine
"""
