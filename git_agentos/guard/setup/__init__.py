"""What the guard installs in a repository and removes again."""
