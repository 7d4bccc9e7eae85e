"""git, read and run: repositories, refs, libgit2, the environment."""
