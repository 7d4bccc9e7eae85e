"""The command line: what it accepts, what it prints where, and with which exit code it ends."""
