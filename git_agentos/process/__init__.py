"""Processes other than our own: looking at them, starting them, and ending them.

table          the processes of this machine, by /proc (elsewhere `ps`): the only module that knows its format
occupants      which processes use a folder, or may have made a lock file
confinement    whether a process may do what another one may
mounts         mount points and file systems
tied           a program that does not outlive the process that has started it; sent to machines of an engine, too
programs       running programs that are not git, bubblewrap too; `deletion` deletes folders, also in the background
delivery       running a user's command in the background, with data for it
supervisor     the program above a command that ends everything below it
marked         ending processes by a mark in their environment
contained      running a command below it; `output` is what the command writes, without secrets

Nothing in here knows repositories, runs or the guard.
"""
