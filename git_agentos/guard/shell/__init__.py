"""Shell text, and programs that run others -> the commands in them, without running anything."""
