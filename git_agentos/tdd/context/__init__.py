"""What a model gets: which files may leave the machine, how many tokens that is, and the prompts made of them.

source_files   which files may be sent: paths, names and sizes; and reading them
secrets        secrets in texts
tokens         how many tokens a text has, never too few
material       the design document and the context files, read and checked; the data policy
prompts        the prompts of the two nodes that ask a model
"""
