"""The scripts of git hooks, core.fsmonitor and the shim."""
