"""What every other package may use. It imports nothing of the project but `errors`.

files             small files: read, replaced or created durably and as a whole
directories       folders of git-agentos, scratch folders, trees of any depth
locks             locks by flock(2)
times             times as they are written everywhere
file_times        how far the times of files can be trusted
system            what only some systems have, and what serves elsewhere
named_tuple       NamedTuple, defined faster than `typing` does
progress          how far a long operation is: a port, which the domain is given
values            settings as people write them: booleans, sizes, durations, ids
quote             names and text that cannot harm a terminal
git_command_line  git's own command line, split
"""
