"""What lies over a view until it is answered or left.

help      the keys
question  a command that is to be run: yes or no
files     the files and hunks in which a checkpoint differs, to be restored
commands  the commands that were run (`@`)
"""
