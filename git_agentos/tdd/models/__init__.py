"""Who writes tests and code: a script, a headless agent, or a chat model. None of them is ever asked about results.

model              what is asked of one (`Request`), what came of it (`Work`), and which one a name means (`choose`)
mock, script       a deterministic script, offline
command            any program that works in the worktree
chat, trouble      a chat model, by LangChain's `init_chat_model`; what went wrong with a call
present            what a chat model is shown of the work so far
answers, edits     the answers of text models: whole files, or search and replace
applying           all of an answer, or nothing, in the worktree
kept               what is kept of an exchange
"""
