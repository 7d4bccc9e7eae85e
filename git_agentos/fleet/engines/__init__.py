"""Engines: what starts workers, on this machine or on others. An engine knows no fleet: truth is in git.

port            what an engine can do
choice          which engine is meant, with which options
local           workers on this machine, some at a time
command         shell text that hands a worker to Slurm, Kubernetes and the like
ray             tasks of a Ray cluster; `ray_driver` is the process that talks to it, `ray_keeper` what is sent there
"""
