"""`guard exec`: an agent below a supervisor, with our git first on its PATH, in a sandbox if asked."""
