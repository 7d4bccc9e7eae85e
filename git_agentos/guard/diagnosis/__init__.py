"""Whether the guard works: its layers are tried, and what is wrong with it is reported."""
