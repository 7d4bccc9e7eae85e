"""The gates: real tests decide, by the exit code of pytest. Everything else can only refuse (a veto), with a reason.

Running tests:

    setup              how pytest is run: worktree, interpreter, environment, sandbox
    python             which interpreter, where it imports from, which plugins are not the project's
    pytest_run         one run of pytest, and its results
    plugin             what is loaded into pytest: standard library only, run by the project's interpreter
    plugin_imports     the part of it that makes imports come from the worktree

Judging them:

    gates              red and green: the exit code and its vetoes
    comparison         the worktree's tests compared with those of the commit that it was made from, and trivial tests
    syntax             test files as syntax trees
    frozen_files       hashes of tests, conftests, pytest's configuration and the interpreter
    pytest_config      what pytest reads of configuration files
    helpers            what tests use outside of the files that are frozen by their names
    audit, tamper      compilation, lint, and signs of tampering in what was written
    command            `tdd gate`: the gates alone, in any worktree
"""
