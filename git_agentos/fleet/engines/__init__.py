"""Engines: what starts workers, on this machine or on others. An engine knows no fleet: truth is in git.

port            what an engine can do
"""
