"""The guard: what an agent's git command would do, whether it may, and what is saved before it does.

    call.py, decision.py   a command as a process is started; operations, and what is decided about them
    identity.py            who asks, an agent or a person; ancestry.py knows the processes above
    settings.py            policy and switches, from configuration that an agent's worktree cannot set

    judge.py, commands.py  a git command line, shell text or any other program -> a judgement: reads, changes nothing
    policy/                a git command line -> operations -> what is decided about them
    shell/                 shell text and programs that run others -> the commands in them

    enforce.py             acts on a judgement: checkpoint (saving.py), approval, log, words. What every layer calls
    approval/              requests and grants, and who may answer

    setup/                 what is put into a repository and taken away again, and whether it acts there
    shim/, harness/        an agent below `guard exec`, and the hooks of the programs that agents run in

Four layers ask the same `enforce`: `core.fsmonitor` and the git hooks (`git_agentos.hooks`), the shim, and the harness
hooks. Standard library only until something must be saved: all of this runs inside of other people's git commands.
"""
