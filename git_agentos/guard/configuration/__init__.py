"""The settings of the guard, and which values of them count."""
