"""Who writes tests and code: a script, a headless agent, or a chat model. None of them is ever asked about results.

model            what a model is asked (`Request`), and the result (`ModelResult`)
selection        which model a name means (`choose`)
mock             a deterministic script, offline
command          any program that works in the worktree
chat, failures   a chat model, by LangChain's `init_chat_model`; what a failed call means
answer           the answers of chat models: whole files, or search and replace
file_changes     applies all of an answer, or nothing, to the worktree
transcript       what is recorded of an exchange
"""
