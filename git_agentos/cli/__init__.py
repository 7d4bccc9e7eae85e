"""The command line: the only package that imports typer, and `output` the only module that prints.

entry       the executables and the one boundary where errors become exit codes (stdlib only at the top)
argv        a look at the raw command line before typer is imported
app         the commands, as one typer application; usage errors in git's style
common      the options that every command has, and one run of a command
output      stdout, stderr, colours, JSON: nothing else writes to either stream
text        what each result says to a person
documents   what each result is as JSON (docs/json.md)
quote       names and text that cannot harm a terminal
tree        the commands as plain data: help, completion and the tests of the man pages read it
crash       where the traceback of a bug is kept
<command>   one module for each command: parse, one call of Workspace, render
"""
