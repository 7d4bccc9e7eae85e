"""What a model is given: which files may leave the machine, how much that is, and the prompts made of them.

rules      paths and sizes: what may be read at all, and reading it
names      what must not be sent because of what it is called
secrets    what must not be sent because of what it says
tokens     how many tokens a text has, never too few
material   the design document and the context files, read and checked
policy     what will be sent to whom, for people
prompts    the prompts of the two nodes that ask a model
"""
