"""Objects: both backends over the same repositories, and what the writer writes, read by git."""
