"""Every state that must come back exactly, taken through checkpoint, wreck, restore, undo and redo."""
