"""Many at once: processes that checkpoint, restore, commit, pack, fetch and write in one repository."""
