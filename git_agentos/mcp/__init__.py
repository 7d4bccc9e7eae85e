"""The MCP server, `git agentos mcp`: tools for agents on stdin and stdout. The only folder that imports the MCP SDK.

server     speaks the protocol: lists the tools, and calls them
tools      the table of the tools: what each takes, gives and may change, and the command that does it
arguments  what a client may give as arguments
command    a command of `git agentos` in a process of its own, and its document
schemas    the schemas of the documents, from the types of the domain
"""
