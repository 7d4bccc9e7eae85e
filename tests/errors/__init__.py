"""Every kind of bad input: a clear error, the exit code of the contract, and nothing lost."""
