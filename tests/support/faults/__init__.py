"""Commands that are killed, or fail, at a chosen step."""
