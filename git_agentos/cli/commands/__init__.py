"""One module for each command of `git agentos`: parse, call the domain once, render."""
