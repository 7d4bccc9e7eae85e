"""Approval requests: filed, granted or denied, and whether a person uses the terminal."""
