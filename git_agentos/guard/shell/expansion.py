"""What a shell makes of a word: the arguments that it becomes, in alternatives.

An expanded word is text with marks in it (`syntax.BREAK`, `syntax.PRESENT`), until it is cut into arguments.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

from git_agentos.guard.shell import words
from git_agentos.guard.shell.state import ANY, MOST_ALTERNATIVES, Alternatives, Array, State
from git_agentos.guard.shell.syntax import BREAK, OR, PRESENT, Node, ShellError
from git_agentos.guard.shell.words import UNKNOWN

Run = Callable[[list[Node], State, str | None], str]
"""Runs what is inside of `$(…)`, with its input, and returns what it prints, UNKNOWN where that is not known."""

_FEED = "/dev/fd/"
_MOST_TEXTS = 8
# Characters before which a backslash is removed.
_ANYWHERE, _IN_QUOTES, _IN_DOCUMENT = "", '$`"\\\n', "$`\\\n"
_ESCAPE = re.compile(r"\\(.?)", re.DOTALL)
# An expansion of a parameter with one of these fields is not computed.
_NOT_COMPUTED = ("Excl", "Length", "Width", "Slice", "Repl", "Names", "IsSet", "NestedParam", "Flags", "Modifiers")
_WITH_DEFAULT = frozenset({"-", ":-", "=", ":=", "+", ":+", "?", ":?"})


class _Fixed(NamedTuple):
    """Text in which no brace or tilde is active."""

    text: str


class _Choice(NamedTuple):
    """The texts that an expansion may become."""

    texts: tuple[str, ...]


Atom = str | _Fixed | _Choice
"""A part of a word; a `str` is one character that is not quoted."""


def fields(word: Node, state: State, run: Run) -> list[list[str]]:
    """The arguments that a word becomes, in alternatives."""
    made: list[list[str]] = []
    for atoms in _chosen(list(_atoms(word["Parts"], state, run))):
        if atoms[:1] == ["~"] and atoms[1:2] in ([], ["/"]):
            atoms[0] = _Fixed(state.value_of("HOME"))
        found = []
        for one in words.braces(atoms):
            text = "".join(atom if isinstance(atom, str) else atom.text for atom in one)  # type: ignore[attr-defined]
            found += [field.replace(PRESENT, "") for field in text.split(BREAK) if field]
        made.append(found)
    return made


def single(word: Node | None, state: State, run: Run) -> Alternatives:
    """A word where nothing is split: the value of an assignment, the target of a redirection."""
    if word is None:
        return (("",),)
    made = []
    for atoms in _chosen(list(_atoms(word["Parts"], state, run, whole=True))):
        if atoms[:1] == ["~"] and atoms[1:2] in ([], ["/"]):
            atoms[0] = _Fixed(state.value_of("HOME"))
        text = "".join(atom if isinstance(atom, str) else atom.text for atom in atoms)
        made.append((text.replace(BREAK, " ").replace(PRESENT, ""),))
    return tuple(dict.fromkeys(made))


def document(redirect: Node, state: State, run: Run) -> str:
    """The text of a here-document."""
    parts = (redirect.get("Hdoc") or {}).get("Parts") or []
    if _is_quoted(redirect["Word"]["Parts"]):
        return "".join(part.get("Value", "") for part in parts)
    found = list(_chosen([atom for part in parts for atom in _part(part, state, run, _IN_DOCUMENT)]))
    if len(found) != 1:
        return UNKNOWN
    text = "".join(atom if isinstance(atom, str) else atom.text for atom in found[0])
    return text.replace(BREAK, " ").replace(PRESENT, "")


def combined(words_: Sequence[list[list[str]]]) -> list[list[str]]:
    """The argument lists that words with alternatives make."""
    total = 1
    for options in words_:
        total *= max(len(options), 1)
    if total > MOST_ALTERNATIVES:
        words_ = [options if len(options) == 1 else [[UNKNOWN]] for options in words_]
    return [[field for part in choice for field in part] for choice in product(*words_)]


def one_of(printed: Sequence[str]) -> str:
    """The output of a command that may print any of these."""
    texts = list(dict.fromkeys(printed))
    return OR.join(texts) if len(texts) <= _MOST_TEXTS else UNKNOWN


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
            if isinstance(each, dict | list):
                commands_in(each, state, run)


def numbers_in(node: Any, state: State, run: Run) -> None:
    """The same for arithmetic, where the value of a variable is an expression again: a command in it runs too."""
    commands_in(node, state, run)
    for name in set(re.findall(r"[A-Za-z_]\w*", " ".join(_texts(node)))):
        for value in state.values(name) or ():
            if any("[" in text and ("$(" in text or "`" in text) for text in value):
                raise ShellError(f"the value of '{name}' has a command in it, and is used as a number")


def _texts(node: Any) -> Iterator[str]:
    if isinstance(node, list):
        for each in node:
            yield from _texts(each)
    elif isinstance(node, dict):
        if isinstance(node.get("Value"), str):
            yield node["Value"]
        for each in node.values():
            yield from _texts(each)


# -- parts of words ----------------------------------------------------------------------------------------------------


def _atoms(parts: list[Node], state: State, run: Run, *, whole: bool = False) -> Iterator[Atom]:
    for part in parts:
        if part["Type"] in ("ParamExp", "CmdSubst") and whole:
            yield from _part(part, state, run, _IN_QUOTES)
        else:
            yield from (
                _Fixed(atom) if whole and isinstance(atom, str) and atom != "~" and atom != "/" else atom
                for atom in _part(part, state, run, _ANYWHERE)
            )


def _part(part: Node, state: State, run: Run, escapes: str) -> Iterator[Atom]:
    """The atoms of one part of a word; `escapes` says whether it is between quotes or in a here-document."""
    kind = part["Type"]
    if kind == "Lit":
        yield from _literal(part["Value"], escapes)
    elif kind == "SglQuoted":
        text = words.ansi(part.get("Value", "")) if part.get("Dollar") else part.get("Value", "")
        yield _Fixed(PRESENT + _checked(text))
    elif kind == "DblQuoted":
        inner = part.get("Parts") or []
        if not any(each["Type"] == "ParamExp" and _is_list(each) for each in inner):
            yield _Fixed(PRESENT)
        for each in inner:
            yield from _part(each, state, run, _IN_QUOTES)
    elif kind == "ParamExp":
        yield _Choice(tuple(_parameter(part, state, run, quoted=escapes != _ANYWHERE)))
    elif kind == "CmdSubst":
        output = run(part.get("Stmts") or [], state, None)
        texts = [_checked(each.rstrip("\n") if each.strip(UNKNOWN) else each[:1]) for each in output.split(OR)]
        yield _Choice(tuple(PRESENT + text if escapes != _ANYWHERE else _split((text,), state) for text in texts))
    elif kind == "ProcSubst":
        is_written_to = part["Op"] != "<("
        output = run(part.get("Stmts") or [], state, UNKNOWN if is_written_to else None)
        name = f"{_FEED}{63 + len(state.file_contents)}{UNKNOWN}"
        state.file_contents[name] = UNKNOWN if is_written_to or OR in output else output
        yield _Fixed(name)
    elif kind == "ArithmExp":
        numbers_in(part, state, run)
        yield _Fixed(UNKNOWN)
    elif kind == "ExtGlob":
        yield _Fixed(_pattern(part))
    else:
        raise ShellError(f"it has a '{kind}' that is not supported")


def _literal(text: str, escapes: str) -> Iterator[Atom]:
    at = 0
    for found in _ESCAPE.finditer(text):
        before = text[at : found.start()]
        yield from before if escapes == _ANYWHERE else [_Fixed(before)]
        behind = found[1]
        if behind == "\n":
            pass
        elif not behind or (escapes != _ANYWHERE and behind not in escapes):
            yield _Fixed("\\" + behind)
        else:
            yield _Fixed(behind)
        at = found.end()
    yield from text[at:] if escapes == _ANYWHERE else [_Fixed(text[at:])]


def _pattern(part: Node) -> str:
    """An extended pattern, replaced by one that matches more. shfmt does not parse its text."""
    if "$" in part["Pattern"]["Value"] or "`" in part["Pattern"]["Value"]:
        raise ShellError("it has an expansion in a pattern")
    return "*"


def _checked(text: str) -> str:
    return UNKNOWN if any(mark in text for mark in (BREAK, PRESENT, OR)) else text


def _is_quoted(parts: list[Node]) -> bool:
    return any(part["Type"] != "Lit" or "\\" in part["Value"] for part in parts)


def _chosen(atoms: list[Atom]) -> Iterator[list[_Fixed | str]]:
    """The atoms, once for each combination of choices."""
    choices = [atom.texts for atom in atoms if isinstance(atom, _Choice)]
    total = 1
    for texts in choices:
        total *= len(texts)
    if total > MOST_ALTERNATIVES:
        choices = [(UNKNOWN,) for _ in choices]
    for chosen in product(*choices):
        rest = iter(chosen)
        yield [_Fixed(next(rest)) if isinstance(atom, _Choice) else atom for atom in atoms]


# -- parameters --------------------------------------------------------------------------------------------------------


def _is_list(part: Node) -> bool:
    """Whether a quoted parameter may become no argument at all."""
    return part.get("Param", {}).get("Value") == "@" or _index(part) == "@"


def _index(part: Node) -> str:
    index = part.get("Index")
    if index is None:
        return ""
    return (literal(index) if "Parts" in index else None) or UNKNOWN


def _parameter(part: Node, state: State, run: Run, *, quoted: bool) -> Iterator[str]:
    expansion = part.get("Exp") or {}
    operator = expansion.get("Op", "")
    default = expansion.get("Word") if operator in _WITH_DEFAULT else None
    if any(part.get(name) for name in _NOT_COMPUTED) or (operator and operator not in _WITH_DEFAULT):
        commands_in(part, state, run)
        yield UNKNOWN
        return
    commands_in(part.get("Index"), state, run)
    held = _held(part, state)
    if default is None and not operator:
        yield from (_shown(value, state, quoted) for value in held)
        return
    given = _default(default, state, run, quoted)
    name, kind = part["Param"]["Value"], operator[-1]
    kept: list[Array] = []
    for value in held:
        is_unknown = UNKNOWN in "".join(value)
        is_set = any(value) if operator.startswith(":") else bool(value)
        if kind == "+":
            yield from given if is_set else ()
            yield from ("",) if is_unknown or not is_set else ()
            continue
        if is_set:
            kept.append(value)
            yield _shown(value, state, quoted)
        if kind in "-=" and (is_unknown or not is_set):
            yield from given
    if kind == "=" and (len(kept) < len(held) or any(UNKNOWN in "".join(value) for value in kept)):
        given_values = [(text.replace(BREAK, " ").replace(PRESENT, ""),) for text in given]
        state.assign(name, tuple(dict.fromkeys((*kept, *given_values))))
    if kind == "?" and not kept:
        yield UNKNOWN


def _default(word: Node | None, state: State, run: Run, quoted: bool) -> list[str]:
    """The word behind `:-` and the like."""
    if word is None:
        return [PRESENT if quoted else ""]
    atoms: list[Atom] = []
    for part in word["Parts"]:
        atoms += _part(part, state, run, _IN_QUOTES if quoted else _ANYWHERE)
    made = []
    for chosen in _chosen(atoms):
        if chosen[:1] == ["~"] and chosen[1:2] in ([], ["/"]):
            chosen[0] = _Fixed(state.value_of("HOME"))
        text = "".join(
            (BREAK if atom in " \t\n" and not quoted else atom) if isinstance(atom, str) else atom.text
            for atom in chosen
        )
        made.append(text)
    return made


def _held(part: Node, state: State) -> Sequence[Array]:
    """The values that a parameter may have, as the fields it becomes between quotes."""
    name, index = part["Param"]["Value"], _index(part)
    if name in ("@", "*"):
        if state.positional is None:
            return ANY
        return (state.positional,) if name == "@" else ((" ".join(state.positional),),)
    if name.isdigit():
        if name == "0":
            return state.variables.get("0", ANY)
        if state.positional is None:
            return ANY
        return (state.positional[int(name) - 1 : int(name)],)
    held = state.values(name)
    if held is None or name == "_" or not (name[:1].isalpha() or name[:1] == "_"):
        return ANY
    if index == "@":
        return held
    if index == "*":
        return tuple((" ".join(each),) for each in held)
    if index == "":
        return tuple(each[:1] for each in held)
    if index.isdigit():
        return tuple(each[int(index) : int(index) + 1] if each != (UNKNOWN,) else each for each in held)
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
