"""The law as a state machine: repositories, edits, and what each restore and undo promises."""
