"""Timelines on remotes: pushed from this clone, fetched from others, by any git remote.

commands   `sync` and `sync status`
results    what they are given and return
push       what a remote lacks, without what is held back, 20 refs at a time
fetch      the timelines of other hosts
chain      the chain of a timeline on a remote: what it lacks, and the commits that are appended
replaced   chains on remotes that the next push replaces, since checkpoints of them were rewritten
scan       what is new to a remote, searched for secrets; which checkpoints are held back for it. The port `Scanner`
encryption what is encrypted to whom, by age; the only module that imports pyrage
bundles    the form of an encrypted timeline on a remote: a chain of encrypted bundles
encrypted  such chains: what is known of them; sent and received
exposed    what was pushed without encryption, for `doctor`
fetched    timelines of other hosts: checked, and found by `--host`
names      the refs, here and on remotes
host       the name of this clone
remotes    which remote is meant
notes      what this clone remembers of each remote, and which findings were allowed
scanner    the scanner that is used
automatic  pushing without a command (`agentos.sync.auto`)
"""
