"""A git command line -> operations -> what is decided about them. Only `facts` and `own_work` read the repository."""
