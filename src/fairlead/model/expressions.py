"""Small integer formulas over named quantities: how a policy scores agents and orders lots.

    sum     = product { ("+" | "-") product }
    product = factor { ("*" | "/" | "%") factor }
    factor  = NUMBER | NAME | "-" factor | "(" sum ")" | ("min" | "max") "(" sum {"," sum} ")"

`/` is whole division, by nothing it gives nothing; so a formula has a value whatever it is given. The same
tree is computed on single numbers and on whole columns.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from msgspec import Struct

from fairlead.model.errors import Problem, nearest, quote

LONGEST = 500
DEEPEST = 20
LARGEST_NUMBER = 1 << 40

_TOKEN = re.compile(
    r"\s*(?:(?P<number>[0-9]+)|(?P<name>[A-Za-z][A-Za-z0-9._]*)|(?P<sign>[-+*/%(),])|(?P<odd>\S))"
)


class Number(Struct, frozen=True, gc=False):
    """It is what it is."""

    value: int


class Name(Struct, frozen=True, gc=False):
    """What stands under this name."""

    name: str


class Apply(Struct, frozen=True, gc=False):
    """An operation on the values of its parts."""

    sign: str
    parts: tuple[Expression, ...]


Expression = Number | Name | Apply


class Arithmetic(NamedTuple):
    """The operations that differ between single numbers and columns."""

    divide: Callable[[Any, Any], Any]
    remainder: Callable[[Any, Any], Any]
    least: Callable[[Any, Any], Any]
    most: Callable[[Any, Any], Any]


def _divide(left: int, right: int) -> int:
    return left // right if right else 0


def _remainder(left: int, right: int) -> int:
    return left % right if right else 0


NUMBERS = Arithmetic(_divide, _remainder, min, max)


def compute(expression: Expression, names: Mapping[str, Any], by: Arithmetic = NUMBERS) -> Any:
    """The value, with these quantities under the names; one that is missing counts as nothing."""
    if isinstance(expression, Number):
        return expression.value
    if isinstance(expression, Name):
        return names.get(expression.name, 0)
    parts = [compute(part, names, by) for part in expression.parts]
    if len(parts) == 1:
        return -parts[0] if expression.sign == "-" else parts[0]
    apply = {
        "+": operator.add, "-": operator.sub, "*": operator.mul, "/": by.divide, "%": by.remainder,
        "min": by.least, "max": by.most,
    }[expression.sign]  # fmt: skip
    value = parts[0]
    for part in parts[1:]:
        value = apply(value, part)
    return value


def parse_expression(text: str, known: Iterable[str]) -> Expression | Problem:
    """The formula that was written over the names that are known, or what is wrong with it and where."""
    if len(text) > LONGEST:
        return Problem("expression", f"a formula of {len(text)} letters", f"a formula has at most {LONGEST}")
    try:
        return _Parser(text, frozenset(known)).parse()
    except _Odd as odd:
        message = f"formula {quote(text)}, column {odd.column}: {odd.said}"
        return Problem("expression", message, fix=odd.fix)


class _Odd(Exception):
    """Leaves the recursion; never leaves this module."""

    def __init__(self, column: int, said: str, fix: str = "") -> None:
        super().__init__(said)
        self.column, self.said, self.fix = column, said, fix


class _Token(NamedTuple):
    kind: str
    text: str
    column: int


def _cut(text: str) -> list[_Token]:
    found: list[_Token] = []
    at, stop = 0, len(text.rstrip())
    while at < stop:
        match = _TOKEN.match(text, at)
        if match is None:
            break
        kind = str(match.lastgroup)
        if kind == "odd":
            raise _Odd(match.start(kind) + 1, f"{quote(match[kind])} means nothing here")
        found.append(_Token(kind, match[kind], match.start(kind) + 1))
        at = match.end()
    return [*found, _Token("end", "", stop + 1)]


class _Parser:
    def __init__(self, text: str, known: frozenset[str]) -> None:
        self._tokens = _cut(text)
        self._known = known
        self._at = 0
        self._depth = 0

    def parse(self) -> Expression:
        expression = self._sum()
        if self._peek().kind != "end":
            raise self._odd("the end or a sign")
        return expression

    def _sum(self) -> Expression:
        return self._chain(("+", "-"), self._product)

    def _product(self) -> Expression:
        return self._chain(("*", "/", "%"), self._factor)

    def _chain(self, signs: tuple[str, ...], part: Callable[[], Expression]) -> Expression:
        value = part()
        while self._peek().text in signs:
            sign = self._peek().text
            self._at += 1
            value = Apply(sign, (value, part()))
        return value

    def _factor(self) -> Expression:
        self._depth += 1
        if self._depth > DEEPEST:
            raise _Odd(self._peek().column, f"a formula is at most {DEEPEST} deep")
        token = self._peek()
        self._at += 1
        value: Expression
        if token.kind == "number":
            if int(token.text) > LARGEST_NUMBER:
                raise _Odd(token.column, f"a number is at most {LARGEST_NUMBER}")
            value = Number(int(token.text))
        elif token.text == "-":
            value = Apply("-", (self._factor(),))
        elif token.text == "(":
            value = self._sum()
            self._need(")")
        elif token.text in ("min", "max") and self._peek().text == "(":
            value = self._call(token.text)
        else:
            self._at -= 1
            value = self._name(token)
        self._depth -= 1
        return value

    def _call(self, sign: str) -> Expression:
        self._need("(")
        parts = [self._sum()]
        while self._peek().text == ",":
            self._at += 1
            parts.append(self._sum())
        self._need(")")
        return Apply(sign, tuple(parts)) if len(parts) > 1 else parts[0]

    def _name(self, token: _Token) -> Expression:
        if token.kind != "name":
            raise self._odd("a number or a name")
        if token.text not in self._known:
            meant = nearest(token.text, self._known)
            names = ", ".join(sorted(self._known))
            raise _Odd(
                token.column, f"{quote(token.text)} is not known", f"{meant}" if meant else f"one of {names}"
            )
        self._at += 1
        return Name(token.text)

    def _peek(self) -> _Token:
        return self._tokens[self._at]

    def _need(self, text: str) -> None:
        if self._peek().text != text:
            raise self._odd(f"`{text}`")
        self._at += 1

    def _odd(self, wanted: str) -> _Odd:
        token = self._peek()
        found = "it ends" if token.kind == "end" else f"{quote(token.text)} stands"
        return _Odd(token.column, f"{found} where {wanted} is expected")
