"""The terminal interface, `git agentos ui`. The only folder that imports Textual, and imported by its command alone.

terminal    runs it on a terminal: what it needs, signals, the exit code
web         serves it to a browser: who is answered, its pages; page.html and page.js are the page
page_process  the process of a page
app         the application: the lines above and below, keys of all views, `perform`
view        what all views have
search      a view in which `/` searches
host        what views need of the application
views       the views, a module each, in the order of their numbers
screens     what lies over a view: help, a question, the commands that were run
rows        a list of which only the visible rows are drawn
matrix      agents against agents
pages       what commands print about an item, a page for each; a view of a list and these
lines       text of which only the visible lines are drawn; one line
background  threads that read while the screen goes on
commands    the commands that actions are, each in a process of its own
stream      the events of one agent, read again only if something has come to them
changes     what is shown of an event
patches     a comparison as lines, and their colours
known_conflicts   who conflicts with whom, looked for once for all views
roster      the agents, kept up to date at little cost
texts       how values are written in a column

A view is a class in a module of `views`, and named in `VIEWS` there. It has

    title, command, hints, every    its name; the command that prints the same; its keys; how often it looks
    compose()                       its widgets: `Rows` for a list, `Lines` for text, side by side in a `Horizontal`
    read()                          in a thread: reads what is shown, by functions of the domain and `self.open()`.
                                    Called every few seconds: what has not changed is not read again
    show(found)                     shows what was read, if it differs from what is shown: `self.rows.replace(…)`
    find_folder()                   the worktree in which `z` undoes

Nothing that may take longer than some milliseconds is done in a handler of a key. What is shown of a row is asked for
by `self.ui.background.request("preview", read, give, pause=0.1)`: only the newest request of a name is answered.

An action is a command and nothing else: a binding in `BINDINGS`, a `Hint` for it, and a method that calls

    self.ui.perform(Command(("restore", id), folder), "Restore …?", plan=Command(("restore", id, "--dry-run"), folder),
                    explain=explain_restore)

which runs the plan, shows it with the command in a question, runs the command after `y`, says how it ended, records it
for `@` and reads the view again. `Command(…, asks_person=True)` gives it the terminal as stdin: without that, nothing
can be granted, denied or accepted. The item is taken when the key is pressed (`rows.current`), never when the answer
comes.

Text of others (names, tasks, paths, messages) reaches the screen by `Rows`, `Lines` and `OneLine`, which escape what
could harm a terminal. A colour always has a word beside it. Colours are the terminal's own, by rich's names (`red`).
"""
