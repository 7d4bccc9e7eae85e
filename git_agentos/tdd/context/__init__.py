"""What a model gets: which files may leave the machine, how many tokens that is, and the prompts made of them.

source_files   the design document and the context files: which may be sent, reading them; the data policy
secrets        secrets in texts
tokens         how many tokens a text has, never too few
prompts        the prompts of the two nodes that ask a model, and the changed files
"""
