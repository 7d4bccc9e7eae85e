"""The law: a checkpoint changes nothing, a restore gives its state, an undo the state before, whatever happens."""
