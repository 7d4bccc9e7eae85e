"""The command line: the only package that imports typer, and `output` the only module that prints.

entry          runs a command line: the one boundary where errors become exit codes (stdlib only at the top)
prescan        reads the command line before anything large is imported
direct         runs a plain command line without typer
app            builds the typer application
execution      parses any other command line with it; help, and usage errors in git's style
command        the decorators that make a function a command
parameters     how a command's function declares its options and arguments
options        the options that several commands share
invocation     one run of a command: directory, agent, output, workspace
authorization  asks the guard whether the command may run
commands/      one module for each command: parse, call the domain once, render
render/        results as text, JSON and HTML
text           a result as text, and its style
output         stdout and stderr: nothing else writes to either stream
hunk_questions the questions of `restore --patch`
progress       the progress of runs and workflows; fleet_progress: of fleets
status_line    the line on the terminal that shows progress: of what others do, and of our own work
command_tree   the commands as plain data, read by help, completion and the tests of the man pages
completion     the completion scripts
served         what the watch daemon loads in advance
crash          where the traceback of a bug is kept
"""
