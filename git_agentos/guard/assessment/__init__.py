"""Assessing a command: what it would do, what is decided about that, and what a checkpoint must hold before it runs."""
