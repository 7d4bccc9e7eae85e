"""What a shell makes of a word: the arguments that it becomes, in alternatives.

An expanded word is text with marks in it (`syntax.BREAK` and the others), until it is cut into arguments.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

from git_agentos.guard.call import UNKNOWN
from git_agentos.guard.shell import words
from git_agentos.guard.shell.state import ANY, MOST_ALTERNATIVES, Alternatives, Array, State
from git_agentos.guard.shell.syntax import (
    BRACE,
    BREAK,
    COMMA,
    END_BRACE,
    MARKS,
    OR,
    PRESENT,
    TILDE,
    Node,
    ShellError,
)

Run = Callable[[list[Node], State, str | None], str]
"""Runs what is inside of `$(…)`, with its input, and returns what it prints, UNKNOWN where that is not known."""

_FEED = "/dev/fd/"
_MOST_TEXTS = 8
# Characters before which a backslash is removed.
_ANYWHERE, _IN_QUOTES, _IN_DOCUMENT = "", '$`"\\\n', "$`\\\n"
_SPECIAL = re.compile(r"\\(.?)|[{},~]|[ \t\n]+", re.DOTALL)
_MARK_OF = {"{": BRACE, ",": COMMA, "}": END_BRACE, "~": TILDE}
# An expansion of a parameter with one of these fields is not computed.
_NOT_COMPUTED = ("Excl", "Length", "Width", "Slice", "Repl", "Names", "IsSet", "NestedParam", "Flags", "Modifiers")
_WITH_DEFAULT = frozenset({"-", ":-", "=", ":=", "+", ":+", "?", ":?"})


def fields(word: Node, state: State, run: Run) -> list[list[str]]:
    """The arguments that a word becomes, in alternatives."""
    made = []
    for text in _texts(word["Parts"], state, run):
        found = [field for one in words.braces(text) for field in _with_home(one, state).split(BREAK)]
        made.append([field.replace(PRESENT, "") for field in found if field])
    return made


def single(word: Node | None, state: State, run: Run) -> Alternatives:
    """A word where nothing is split: the value of an assignment, the target of a redirection."""
    if word is None:
        return (("",),)
    parts = [(part, _IN_QUOTES if part["Type"] in ("ParamExp", "CmdSubst") else _ANYWHERE) for part in word["Parts"]]
    texts = _combined_texts([_part(part, state, run, escapes) for part, escapes in parts])
    return tuple(dict.fromkeys((_plain(_with_home(text, state)),) for text in texts))


def document(redirect: Node, state: State, run: Run) -> str:
    """The text of a here-document."""
    parts = (redirect.get("Hdoc") or {}).get("Parts") or []
    if any(part["Type"] != "Lit" or "\\" in part["Value"] for part in redirect["Word"]["Parts"]):
        return "".join(part.get("Value", "") for part in parts)
    texts = _texts(parts, state, run, _IN_DOCUMENT)
    return _plain(texts[0]) if len(texts) == 1 else UNKNOWN


def combined(words_: Sequence[list[list[str]]]) -> list[list[str]]:
    """The argument lists that words with alternatives make."""
    if math.prod(len(options) or 1 for options in words_) > MOST_ALTERNATIVES:
        words_ = [options if len(options) == 1 else [[UNKNOWN]] for options in words_]
    return [[field for part in choice for field in part] for choice in product(*words_)]


def one_of(printed: Sequence[str]) -> str:
    """The output of a command that may print any of these."""
    texts = list(dict.fromkeys(printed))
    return OR.join(texts) if len(texts) <= _MOST_TEXTS else UNKNOWN


def some_of(printed: Sequence[str]) -> str:
    """The output of commands that print these one after the other, each of which runs perhaps."""
    texts = [""]
    for output in printed:
        texts = [text + more for text in texts for more in dict.fromkeys(("", *output.split(OR)))]
        texts = texts if len(texts) <= _MOST_TEXTS else [UNKNOWN]
    return one_of(texts)


def literal(word: Node) -> str | None:
    """The text of a word without expansions, None for any other."""
    parts = word["Parts"]
    if len(parts) == 1 and parts[0]["Type"] == "Lit" and "\\" not in parts[0]["Value"]:
        return str(parts[0]["Value"])
    return None


def commands_in(node: Any, state: State, run: Run) -> None:
    """Read the commands substituted in a part of the tree that is not expanded (arithmetic, tests)."""
    if isinstance(node, list):
        for each in node:
            commands_in(each, state, run)
    elif isinstance(node, dict):
        if node.get("Type") in ("CmdSubst", "ProcSubst"):
            run(node.get("Stmts") or [], state, None)
            return
        if node.get("Type") == "ExtGlob":
            _pattern(node)
        for each in node.values():
            commands_in(each, state, run)


# -- parts of words ----------------------------------------------------------------------------------------------------


def _texts(parts: Sequence[Node], state: State, run: Run, escapes: str = _ANYWHERE) -> list[str]:
    """The texts that some parts of a word may become; `escapes` says whether they are quoted or in a here-document."""
    return _combined_texts([_part(part, state, run, escapes) for part in parts])


def _combined_texts(choices: list[list[str]]) -> list[str]:
    if math.prod(map(len, choices)) > MOST_ALTERNATIVES:
        choices = [texts if len(texts) == 1 else [UNKNOWN] for texts in choices]
    return list(map("".join, product(*choices)))


def _part(part: Node, state: State, run: Run, escapes: str) -> list[str]:
    kind = part["Type"]
    if kind == "Lit":
        return [_literal(part["Value"], escapes)]
    if kind == "SglQuoted":
        text = words.ansi(part.get("Value", "")) if part.get("Dollar") else part.get("Value", "")
        return [PRESENT + _checked(text)]
    if kind == "DblQuoted":
        inner = part.get("Parts") or []
        # A quoted list may become no argument at all.
        is_list = any(
            each["Type"] == "ParamExp" and "@" in (each.get("Param", {}).get("Value"), _index(each)) for each in inner
        )
        return [("" if is_list else PRESENT) + text for text in _texts(inner, state, run, _IN_QUOTES)]
    if kind == "ParamExp":
        return list(dict.fromkeys(_parameter(part, state, run, quoted=escapes != _ANYWHERE)))
    if kind == "CmdSubst":
        output = run(part.get("Stmts") or [], state, None)
        texts = [_checked(each.rstrip("\n") if each.strip(UNKNOWN) else each[:1]) for each in output.split(OR)]
        return list(dict.fromkeys(PRESENT + text if escapes != _ANYWHERE else _split((text,), state) for text in texts))
    if kind == "ProcSubst":
        is_written_to = part["Op"] != "<("
        output = run(part.get("Stmts") or [], state, UNKNOWN if is_written_to else None)
        name = f"{_FEED}{63 + len(state.file_contents)}{UNKNOWN}"
        state.file_contents[name] = UNKNOWN if is_written_to or OR in output else output
        return [name]
    if kind == "ArithmExp":
        commands_in(part, state, run)
        return [UNKNOWN]
    if kind == "ExtGlob":
        return [_pattern(part)]
    raise ShellError(f"it has a '{kind}' that is not supported")


def _literal(text: str, escapes: str) -> str:
    def one(found: re.Match[str]) -> str:
        behind = found[1]
        if behind is None:
            return found[0] if escapes else _MARK_OF.get(found[0], BREAK)
        if behind == "\n":
            return ""
        return behind if behind and (not escapes or behind in escapes) else "\\" + behind

    return _SPECIAL.sub(one, text)


def _pattern(part: Node) -> str:
    """An extended pattern, replaced by one that matches more. shfmt does not parse its text."""
    if "$" in part["Pattern"]["Value"] or "`" in part["Pattern"]["Value"]:
        raise ShellError("it has an expansion in a pattern")
    return "*"


def _checked(text: str) -> str:
    return UNKNOWN if MARKS.search(text) else text


def _with_home(text: str, state: State) -> str:
    """A text in which a `~` at the beginning is the home folder, and others are themselves."""
    if text[:1] == TILDE and text[1:2] in ("", "/", BREAK):
        text = state.value_of("HOME") + text[1:]
    return text.replace(TILDE, "~")


def _plain(text: str) -> str:
    """A text without marks."""
    text = text.replace(BREAK, " ").replace(PRESENT, "")
    return text.replace(BRACE, "{").replace(COMMA, ",").replace(END_BRACE, "}")


# -- parameters --------------------------------------------------------------------------------------------------------


def _index(part: Node) -> str:
    index = part.get("Index")
    if index is None:
        return ""
    return (literal(index) if "Parts" in index else None) or UNKNOWN


def _parameter(part: Node, state: State, run: Run, *, quoted: bool) -> list[str]:
    expansion = part.get("Exp") or {}
    operator = expansion.get("Op", "")
    if any(part.get(name) for name in _NOT_COMPUTED) or (operator and operator not in _WITH_DEFAULT):
        commands_in(part, state, run)
        return [UNKNOWN]
    commands_in(part.get("Index"), state, run)
    values = _values(part, state)
    if not operator:
        return [_shown(value, state, quoted) for value in values]
    word = expansion.get("Word")
    defaults = [PRESENT if quoted else ""]
    if word is not None:
        texts = _texts(word["Parts"], state, run, _IN_QUOTES if quoted else _ANYWHERE)
        defaults = [_with_home(text, state) for text in texts]
    kept = [value for value in values if (any(value) if ":" in operator else value)]
    is_certain = len(kept) == len(values) and all(map(words.known, "".join(map("".join, kept))))
    texts = [_shown(value, state, quoted) for value in kept]
    if operator[-1] == "+":
        return defaults if is_certain else [*(defaults if kept else ()), ""]
    if operator[-1] == "?":
        return texts or [UNKNOWN]
    if operator[-1] == "=" and not is_certain:
        state.assign(part["Param"]["Value"], (*kept, *((_plain(text),) for text in defaults)))
    return texts if is_certain else [*texts, *defaults]


def _values(part: Node, state: State) -> Sequence[Array]:
    """The values that a parameter may have, as the fields it becomes between quotes."""
    name, index = part["Param"]["Value"], _index(part)
    if name in ("@", "*") or (name.isdigit() and name != "0"):
        if state.positional is None:
            return ANY
        if name == "@":
            return (state.positional,)
        return ((" ".join(state.positional),),) if name == "*" else (state.positional[int(name) - 1 : int(name)],)
    values = state.values(name)
    if values is None or name == "_" or not (name[:1].isalpha() or name[:1] in ("_", "0")):
        return ANY
    if index == "@":
        return values
    if index == "*":
        return tuple((" ".join(each),) for each in values)
    if index in ("", "0"):
        return tuple(each[:1] for each in values)
    if index.isdigit():
        return tuple(each[int(index) : int(index) + 1] if each != (UNKNOWN,) else each for each in values)
    return ANY


def _shown(value: Array, state: State, quoted: bool) -> str:
    """A value as text with marks."""
    value = tuple(map(_checked, value))
    return BREAK.join(PRESENT + each for each in value) if quoted else _split(value, state)


def _split(value: Array, state: State) -> str:
    """An unquoted value, split at blanks."""
    if "IFS" in state.variables:
        return UNKNOWN if any(value) else ""
    return re.sub(r"[ \t\n]+", BREAK, " ".join(value))
