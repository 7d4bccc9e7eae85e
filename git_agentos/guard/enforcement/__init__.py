"""Acting on an assessment: the checkpoint, the approval request, the log entry, and the message."""
