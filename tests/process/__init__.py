"""Processes: who works in a folder, commands that are contained, their output."""
