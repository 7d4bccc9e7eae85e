"""What plain git makes of a checkpoint, on machines where this tool is not installed."""
