"""What is on record of a run.

events     one line for everything that happens, and the run that these lines tell
evidence   the folder with all that is kept
sealing    closing it, so that it shows if anybody touches it, and looking whether anybody did
runs       showing runs: list, show, logs, diff
"""
