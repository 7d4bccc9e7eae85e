"""A git command line -> operations -> what is decided about them. Pure, but for `facts`, which looks things up."""
