"""What is on record of a run.

events     everything that happens, and the run that it leads to
journal    the lines that tell it on disk: signed one after the other, and believed only where they are
evidence   the folder with all that is kept; `folder` reaches its files without following a link
sealing    closing it, so that it shows if anybody touches it, and looking whether anybody did
patches    the patches in it, without secrets
runs       showing runs: list, show, logs, diff
"""
