"""Bringing a saved state back: restore, undo, rollback, recover."""
