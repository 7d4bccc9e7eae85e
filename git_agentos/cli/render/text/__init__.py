"""Results as text for people, one module for each group of commands."""
