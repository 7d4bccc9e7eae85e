"""The workflow database: its place, its making, its damage."""
