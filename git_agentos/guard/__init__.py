"""The guard: what an agent's command would do, whether it may run, and what is saved before it does.

    call.py                a command as a process starts it
    decision.py            operations, decisions, assessments: the vocabulary
    identity.py            who gives a command: an agent or a person; ancestry.py: which process started it
    ownership.py           which worktrees are an agent's own
    authorize.py           whether an agent may run a command of git-agentos itself
    operator.py            whether the caller may decide for agents
    messages.py            what is printed when a command is stopped, saved or waits
    operation_table.py     the operations, and what is decided about each by default
    protected_files.py     the settings of harnesses, which an agent may not change
    paths.py, signing.py   questions about paths; the key of the user, and what is signed with it
    tampering.py           whether the guard itself was changed

    assessment/            a command -> an assessment. Reads, changes nothing
        assessor.py        the way in: git commands, other programs, shell text, hook events; and the decision
        git_command.py     reads one git command line
        hook_events.py     what git tells its hooks: updates of refs, pushes, commits
        shell_text.py      reads shell text and programs; named_files.py, file_owners.py: their files
    policy/                a git command line -> operations -> what is decided about them
        subcommands.py     which function reads which subcommand; commands/ has the functions
        option_table.py    git's options; command_table.py: our own commands
        facts.py           what the repository says; own_work.py: what of it is the agent's own
        operations.py      what an operation can take away, and whether a checkpoint can restore it; the decision
    shell/                 shell text -> the programs that it starts, without running anything
        syntax.py          the syntax tree, by shfmt; reader.py walks it
        runners.py         programs that run others; interpreters.py: those given code; file_programs.py: files

    configuration/         the settings, which values count (confirmation.py), the branches protected from a run
    enforcement/           acts on an assessment
        enforcer.py        the way in, for every layer: checkpoint, approval, log, message
        safeguard.py       the checkpoint before a command; saving.py creates it
        aftermath.py       what a command has changed before it was stopped
    approval/              requests and grants, and whether a person uses a terminal

    setup/                 what is installed in a repository and removed again
    exec/, harness/        an agent below `guard exec`, and the hooks of the programs in which agents run
    diagnosis/             whether all of it works: for `guard status` and `doctor`

Four layers use the same `enforcer`: `core.fsmonitor` and the git hooks (`git_agentos.hooks`), the shim, and the harness
hooks. Only the standard library is imported until something must be saved: all of this runs inside of git commands.
"""
