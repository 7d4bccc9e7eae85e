"""The arbiter: real tests decide, by the exit code of their process.

Everything else here can only take a yes back (a veto), and says why.

Running tests:

    ground             where tests run: the worktree, the interpreter, the environment, the sandbox
    interpreter        which Python that is, and where it imports from
    environment        what the process gets of the user's: no keys
    sandbox            bubblewrap's command line
    running            one run of pytest, and what it left: exit code, output, report
    desk               the folder beside it: launcher, plugin, and what it writes
    bounded            output that may be endless, kept to its head and tail
    report             the junit report as cases
    evidence_plugin    what is loaded into pytest: standard library only, run by the project's interpreter
    evidence_imports   its part that has the worktree imported, wherever the project is installed from

Judging them:

    gates              red and green: the exit code and its vetoes
    against            the worktree's tests against those of the commit that it was made from
    look, hollow       an AST look at tests: which there are, and which are none
    freeze, inifile    tests, conftests and pytest's configuration, by hash; what pytest reads of a configuration file
    helpers            what tests use outside of the files that are frozen by name
    audit, tamper      lint, and a look for tampering in what was written
    standalone         `tdd gate`: the gates alone, in any worktree
"""
