"""Shell text -> its syntax: the only module that imports tree-sitter.

The parser is tree-sitter-bash (docs/decisions/008-tree-sitter-for-shell-text.md). It forgives, and it knows less than
bash of some corners; so whatever is not understood to the end is an error here, and nothing is passed over. What it
gets wrong without saying so is put right: backquotes (taken as they stand in words and here-documents), lines that go
on after a backslash in the middle of a word.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from git_agentos.errors import GuardError
from git_agentos.guard.shell import words
from git_agentos.guard.shell.shell_literal import IN_DOCUMENT, IN_QUOTES, literal
from git_agentos.guard.shell.shell_syntax import (
    NOTHING,
    Assignment,
    Chain,
    Command,
    Each,
    Function,
    Group,
    Maybe,
    Node,
    Opaque,
    Parameter,
    Part,
    Pipeline,
    Redirect,
    ShellError,
    Substitution,
    Text,
    Tried,
    While,
    Word,
    argument,
    attach,
    prepend,
)

if TYPE_CHECKING:
    from tree_sitter import Node as TreeNode
    from tree_sitter import Parser

INSTALL = "install it with: pip install 'git-agentos[shell]'"
_DEEPEST = 60
_LONGEST = 1 << 20


# -- reading it --------------------------------------------------------------------------------------------------------


def parse(text: str) -> Node:
    """The syntax of `text`. ShellError where it is not understood; GuardError where the parser is not installed."""
    return _Reader(text, 0).read()


def _parser() -> Parser:
    try:
        import tree_sitter
        import tree_sitter_bash
    except ImportError as error:
        raise GuardError(
            f"shell text cannot be read: {error.name or 'tree-sitter'} is not installed", INSTALL
        ) from error
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


_STATEMENTS = frozenset(
    """command redirected_statement pipeline list subshell compound_statement if_statement for_statement while_statement
    c_style_for_statement case_statement function_definition variable_assignment variable_assignments
    declaration_command unset_command test_command negated_command""".split()
)
_WORDS = frozenset(
    """word number string raw_string ansi_c_string translated_string concatenation simple_expansion expansion
    command_substitution process_substitution arithmetic_expansion brace_expression variable_name extglob_pattern regex
    special_variable_name test_operator""".split()
)
_DEFAULTS = frozenset({":-", "-", ":=", "=", ":+", "+", ":?", "?"})


class _Reader:
    def __init__(self, text: str, depth: int) -> None:
        if depth > _DEEPEST:
            raise ShellError("it is nested too deeply")
        if len(text) > _LONGEST:
            raise ShellError("it is too long")
        if "\0" in text:
            raise ShellError("it has a NUL in it")
        self.depth = depth
        self.source = text.encode("utf-8", "surrogateescape")

    def read(self) -> Node:
        root = _parser().parse(self.source).root_node
        if root.has_error:
            raise ShellError("its syntax is not understood")
        if b"#" in self.source:
            self.check_comments(root)
        try:
            return self.all(root.children)
        except RecursionError as error:
            raise ShellError("it is nested too deeply") from error

    def check_comments(self, root: TreeNode) -> None:
        """The parser takes a `#` behind an escaped blank for a comment, and what follows it would not be seen."""
        nodes = [root]
        while nodes:
            node = nodes.pop()
            nodes += node.children
            before = self.source[: node.start_byte]
            if node.type == "comment" and before:
                blank = before[-1:] in b" \t" and not (len(before[:-1]) - len(before[:-1].rstrip(b"\\"))) % 2
                if not blank and before[-1:] not in b"\n;&|()`":
                    raise ShellError("it has a '#' that is not understood")

    def inside(self, text: str) -> Node:
        return _Reader(text, self.depth + 1).read()

    def raw(self, node: TreeNode) -> str:
        return self.cut(node.start_byte, node.end_byte)

    def cut(self, start: int, end: int) -> str:
        return self.source[start:end].decode("utf-8", "surrogateescape")

    # -- statements

    def all(self, nodes: Sequence[TreeNode]) -> Node:
        parts: list[Node] = []
        for node in nodes:
            if node.type == "&" and parts:
                # In the background it is a shell of its own.
                parts[-1] = Group(parts[-1], own=True)
            elif node.is_named and node.type != "comment":
                parts.append(self.statement(node))
        return parts[0] if len(parts) == 1 else Chain(tuple(parts))

    def statement(self, node: TreeNode) -> Node:
        read = getattr(self, "_" + node.type, None) if node.type in _STATEMENTS else None
        if read is None:
            raise ShellError(f"it has a '{node.type}' that is not understood")
        made: Node = read(node)
        return made

    def _command(self, node: TreeNode) -> Node:
        assignments: list[Assignment] = []
        redirects: list[Redirect] = []
        inner: list[Node] = []
        pieces: list[TreeNode] = []
        ends: set[int] = set()
        for child in node.children:
            if child.type == "variable_assignment":
                assignments.append(self.assignment(child))
            elif child.type in ("file_redirect", "herestring_redirect"):
                redirects.append(self.redirect(child))
                pieces += self.behind(child)
                ends.add(child.end_byte)
            elif child.type in _STATEMENTS:
                inner.append(self.statement(child))
            elif child.type == "command_name":
                pieces += child.children
            elif child.type in _WORDS or child.type in ("$", "==", "=~"):
                pieces.append(child)
            else:
                raise ShellError(f"it has a '{child.type}' that is not understood")
        if any(piece.start_byte in ends for piece in pieces):
            raise ShellError("it has a redirection that is not understood")
        read = self.joined(pieces)
        if (read and read[0] in ((Text("}"),), (Text("{"),))) or any(word == (Text("{"),) for word in read[:3]):
            raise ShellError("it has a brace that is not understood")
        return Command(read, tuple(assignments), tuple(redirects), tuple(inner))

    def joined(self, pieces: Sequence[TreeNode]) -> tuple[Word, ...]:
        """Words, where what touches, or is apart by nothing but a line that goes on, is one word."""
        made: list[Word] = []
        end = -1
        dollar = False
        for piece in pieces:
            if piece.start_byte == piece.end_byte:
                continue  # missing, where an assignment stands alone
            text = self.raw(piece)
            start = piece.start_byte + len(text) - len(text.lstrip(" \t\n"))
            gap = self.source[end:start] if end >= 0 else b" "
            word = self.word(piece)
            gap = gap.replace(b"\\\r\n", b"").replace(b"\\\n", b"")
            if b"\\" in gap and not gap.strip(b" \t\n\r\\"):
                raise ShellError("it has an escaped blank that is not understood")
            if made and not gap:
                before = made[-1]
                if dollar and piece.type == "string":  # $"text" is "text", translated
                    before = before[:-1]
                elif dollar and piece.type not in ("raw_string", "ansi_c_string"):
                    raise ShellError("it has an expansion that is not understood")  # a $1 in two pieces, for one
                made[-1] = before + word
            else:
                made.append(word)
            end = piece.end_byte
            dollar = _last(piece).type == "$"
        return tuple(made)

    def _redirected_statement(self, node: TreeNode) -> Node:
        body: Node = NOTHING
        after: list[tuple[str, Node]] = []
        for child in node.children:
            if child.type in ("file_redirect", "herestring_redirect"):
                body = attach(body, self.redirect(child))
                for word in self.joined(self.behind(child)):
                    body = argument(body, word)
            elif child.type == "heredoc_redirect":
                body, rest = self.document(child, body)
                after += rest
            elif child.is_named and child.type != "comment":
                body = self.statement(child)
        for how, rest_ in after:
            body = prepend(rest_, body) if how == "|" else Tried((body, rest_), (how,))
        return body

    def document(self, node: TreeNode, body: Node) -> tuple[Node, list[tuple[str, Node]]]:
        """A here-document, with what stands behind its delimiter on the same line."""
        after: list[tuple[str, Node]] = []
        target: Word | None = None
        quoted = False
        how = "&&"
        for n, child in enumerate(node.children):
            if child.type == "heredoc_start":
                quoted = any(mark in self.raw(child) for mark in "'\"\\")
            elif child.type == "heredoc_body":
                target = self.body(child, quoted)
            elif child.type in ("file_redirect", "herestring_redirect"):
                body = attach(body, self.redirect(child))
                for word in self.joined(self.behind(child)):
                    body = argument(body, word)
            elif child.type in ("&&", "||"):
                how = child.type
            elif child.type == "pipeline":
                after.append(("|", self.all(child.children)))
            elif node.field_name_for_child(n) == "right":
                after.append((how, self.statement(child)))
            elif node.field_name_for_child(n) == "argument":
                body = argument(body, self.word(child))
            elif child.type not in ("<<", "<<-", "heredoc_end", "file_descriptor"):
                raise ShellError(f"it has a '{child.type}' that is not understood")
        return attach(body, Redirect("<<", target or (Text("", True),))), after

    def body(self, node: TreeNode, quoted: bool) -> Word:
        if quoted:
            return (Text(self.raw(node), True),)
        return tuple(self.pieces(node, node.start_byte, node.end_byte, IN_DOCUMENT))

    def _pipeline(self, node: TreeNode) -> Node:
        return Pipeline(tuple(self.statement(child) for child in node.children if child.is_named))

    def _list(self, node: TreeNode) -> Node:
        # The parser nests them to the left, as deep as they are long.
        parts: list[Node] = []
        operators: list[str] = []
        left: TreeNode = node
        while left.type == "list":
            operators += [child.type for child in left.children if child.type in ("&&", "||")]
            left, right = (child for child in left.children if child.is_named and child.type != "comment")
            parts.append(self.statement(right))
        return Tried((self.statement(left), *reversed(parts)), tuple(reversed(operators)))

    def _negated_command(self, node: TreeNode) -> Node:
        return self.all(node.children)

    def _subshell(self, node: TreeNode) -> Node:
        return Group(self.all(node.children), own=True)

    def _compound_statement(self, node: TreeNode) -> Node:
        if node.children and node.children[0].type == "((":
            # Arithmetic to bash; to a plain sh, a subshell in a subshell.
            inner = list(self.nested(node))
            with contextlib.suppress(ShellError):
                inner.append(Group(self.inside(self.raw(node).strip()[2:-2]), own=True))
            return Command(inner=tuple(inner))
        return Group(self.all(node.children))

    def _test_command(self, node: TreeNode) -> Node:
        return Command(inner=tuple(self.nested(node)))

    def _if_statement(self, node: TreeNode) -> Node:
        first: list[Node] = []
        branches: list[Node] = []
        body: list[TreeNode] = []
        seen_then = False
        for child in node.children:
            if child.type == "then":
                seen_then = True
            elif child.type in ("elif_clause", "else_clause"):
                branches.append(self.all(child.children))
            elif seen_then:
                body.append(child)
            elif child.is_named and child.type != "comment":
                first.append(self.statement(child))
        return Maybe(Chain(tuple(first)), (self.all(body), *branches))

    def _for_statement(self, node: TreeNode) -> Node:
        name = self.raw(_field(node, "variable"))
        listed = any(child.type == "in" for child in node.children)
        values = self.joined([c for n, c in enumerate(node.children) if node.field_name_for_child(n) == "value"])
        return Each(name, values if listed else None, self.all(_field(node, "body").children))

    def _c_style_for_statement(self, node: TreeNode) -> Node:
        body = _field(node, "body")
        head = [inner for child in node.children if child != body for inner in self.nested(child)]
        return While(Command(inner=tuple(head)), self.all(body.children))

    def _while_statement(self, node: TreeNode) -> Node:
        body = _field(node, "body")
        condition = self.all([child for child in node.children if child != body])
        return While(condition, self.all(body.children))

    def _case_statement(self, node: TreeNode) -> Node:
        head: list[Node] = list(self.nested(_field(node, "value")))
        branches = []
        for child in node.children:
            if child.type == "case_item":
                values = [n for n in range(len(child.children)) if child.field_name_for_child(n) == "value"]
                for n in values:
                    head += self.nested(child.children[n])
                rest = [c for n, c in enumerate(child.children) if n not in values]
                branches.append(self.all([c for c in rest if c.type in _STATEMENTS or c.type == "&"]))
        return Maybe(Command(inner=tuple(head)), tuple(branches))

    def _function_definition(self, node: TreeNode) -> Node:
        return Function(self.raw(_field(node, "name")), self.statement(_field(node, "body")))

    def _variable_assignment(self, node: TreeNode) -> Node:
        return Command(assignments=(self.assignment(node),))

    def _variable_assignments(self, node: TreeNode) -> Node:
        return Command(assignments=tuple(self.assignment(child) for child in node.children if child.is_named))

    def _declaration_command(self, node: TreeNode) -> Node:
        assignments = [self.assignment(child) for child in node.children if child.type == "variable_assignment"]
        rest = [child for child in node.children[1:] if child.is_named and child.type != "variable_assignment"]
        return Command(self.joined(rest), tuple(assignments), declares=self.raw(node.children[0]))

    def _unset_command(self, node: TreeNode) -> Node:
        return Command(((Text("unset"),), *self.joined([child for child in node.children[1:] if child.is_named])))

    # -- parts of statements

    def assignment(self, node: TreeNode) -> Assignment:
        target = _field(node, "name")
        element = target.type == "subscript"
        name = self.raw(_field(target, "name") if element else target)
        append = any(child.type == "+=" for child in node.children)
        value = node.child_by_field_name("value")
        items: tuple[Word, ...] | None = None
        read: Word = ()
        if value is not None and value.type == "array":
            items = self.joined([child for child in value.children if child.is_named and child.type != "comment"])
        elif value is not None:
            read = self.word(value)
        if element:
            read += (Opaque(tuple(self.nested(target))),)
        return Assignment(name, read, items, append, element)

    def redirect(self, node: TreeNode) -> Redirect:
        if node.type == "herestring_redirect":
            return Redirect("<<<", self.word(node.children[-1]))
        operator = next(child.type for child in node.children if child.type != "file_descriptor")
        target = node.child_by_field_name("destination")
        return Redirect(operator, self.word(target) if target is not None else ())

    @staticmethod
    def behind(node: TreeNode) -> list[TreeNode]:
        """The words behind a redirection's target: they are the command's."""
        return node.children_by_field_name("destination")[1:]

    def nested(self, node: TreeNode) -> Iterator[Node]:
        """What runs inside of a node that is not looked at closer."""
        if node.type in ("command_substitution", "process_substitution"):
            for part in self.word(node):
                if isinstance(part, Substitution):
                    yield part.body
        elif node.type in ("word", "regex", "extglob_pattern", "string_content"):
            for part in literal(self.raw(node), IN_QUOTES, self.inside):
                if isinstance(part, Substitution):
                    yield part.body
        else:
            for child in node.children:
                yield from self.nested(child)

    # -- words

    def word(self, node: TreeNode) -> Word:
        kind = node.type
        if kind == "raw_string":
            return (Text(self.raw(node).strip(" \t\n")[1:-1], True),)
        if kind == "ansi_c_string":
            return (Text(words.ansi(self.raw(node).strip(" \t\n")[2:-1]), True),)
        if kind == "string":
            text = self.raw(node)
            start = node.start_byte + text.index('"') + 1
            return (Text("", True), *self.pieces(node, start, node.end_byte - 1, IN_QUOTES))
        if kind in ("concatenation", "translated_string"):
            made = self.joined(node.children)
            return tuple(part for word in made for part in word)
        if kind == "simple_expansion":
            return (Parameter(self.raw(node.children[-1])),)
        if kind == "expansion":
            return (self.expansion(node),)
        if kind == "command_substitution":
            text = self.raw(node).strip(" \t\n")
            if text.startswith("`"):
                return tuple(literal(text, "", self.inside))
            redirects = [child for child in node.children if child.type.endswith("_redirect")]
            if redirects:  # $(<file)
                return (Substitution(Command(redirects=tuple(self.redirect(each) for each in redirects))),)
            return (Substitution(self.all(node.children)),)
        if kind == "process_substitution":
            return (Substitution(self.all(node.children), feed=True),)
        if kind == "arithmetic_expansion":
            return (Opaque(tuple(self.nested(node))),)
        if kind in ("$", "==", "=~"):
            text = self.raw(node).lstrip(" \t\n")
            return (Text(text[:-1]), Text("$", True)) if kind == "$" and text != "$" else (Text(text, True),)
        if kind in _WORDS or not node.is_named:
            return tuple(literal(self.raw(node), "", self.inside))
        raise ShellError(f"it has a '{kind}' that is not understood")

    def expansion(self, node: TreeNode) -> Parameter:
        name = index = operator = ""
        rest: list[TreeNode] = []
        for child in node.children:
            if child.type == "subscript" and not name:
                name = self.raw(_field(child, "name"))
                at = child.child_by_field_name("index")
                index = self.raw(at) if at is not None else ""
            elif child.type in ("variable_name", "special_variable_name") and not name:
                name = self.raw(child)
            elif not child.is_named and child.type.strip() in ("${", "}"):
                continue
            elif not child.is_named and not operator:
                operator = child.type
                if not name:  # ${#x}, ${!x}
                    operator = "^" + operator
            else:
                rest.append(child)
        if not name:
            name, operator = "?", "^"
        inner = tuple(found for child in node.children for found in self.nested(child))
        word: Word = ()
        if operator in _DEFAULTS:
            word = tuple(part for each in rest if each.is_named for part in self.word(each))
            inner = ()
        return Parameter(name, operator, word, index, inner=inner)

    def pieces(self, node: TreeNode, start: int, end: int, quote: str) -> Iterator[Part]:
        """What is between two quotes, or in a here-document: its expansions, and everything between them."""
        position = start
        for child in node.children:
            if child.type not in _WORDS or child.start_byte < start:
                continue
            text = self.raw(child)
            begin = child.start_byte + len(text) - len(text.lstrip(" \t\n"))
            yield from literal(self.cut(position, begin), quote, self.inside)
            for part in self.word(child):
                yield part if isinstance(part, Opaque) else part._replace(quoted=True)
            position = child.end_byte
        yield from literal(self.cut(position, end), quote, self.inside)


def _field(node: TreeNode, name: str) -> TreeNode:
    found = node.child_by_field_name(name)
    if found is None:
        raise ShellError(f"it has a '{node.type}' that is not understood")
    return found


def _last(node: TreeNode) -> TreeNode:
    while node.children:
        node = node.children[-1]
    return node
