"""Harnesses: the client programs in which agents run. They ask a hook before they run what an agent wants."""
