"""Rules over labels: whether something with these labels is meant.

    rule  = and { "or" and }
    and   = not { "and" not }
    not   = "not" not | "(" rule ")" | test
    test  = NAME                             the label is there, and is not `false`
          | NAME "exists"                    the label is there
          | NAME "==" VALUE                  it has this value
          | NAME "!=" VALUE                  it has another value, or is not there
          | NAME "in" "(" VALUE {"," VALUE} ")"
          | NAME "not" "in" "(" VALUE {"," VALUE} ")"
          | NAME "<" NUMBER                  it is a whole number below this one; likewise <=, > and >=

NAME is `[A-Za-z][A-Za-z0-9._/-]*`. VALUE is a word of letters, digits and `._/:+-`, or anything in quotes.
`and`, `or`, `not`, `in` and `exists` are values only in quotes. `not` binds before `and`, `and` before `or`.
Labels are text; a missing one satisfies no positive test, so `a != b` is exactly `not a == b`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from msgspec import Struct

from .errors import Problem, quote

LONGEST_RULE = 1000
DEEPEST_RULE = 20
MOST_VALUES = 100

WORDS = frozenset({"and", "or", "not", "in", "exists"})

_TOKEN = re.compile(
    r"""\s*(?:(?P<text>"[^"]*"|'[^']*')|(?P<word>[A-Za-z0-9._/:+-]+)|(?P<sign>==|!=|<=|>=|[<>(),])|(?P<odd>\S))"""
)
_NUMBER = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._/-]*", re.ASCII)


class Holds(Struct, frozen=True, gc=False):
    """The label is there and is not `false`."""

    name: str


class Exists(Struct, frozen=True, gc=False):
    """The label is there."""

    name: str


class Among(Struct, frozen=True, gc=False):
    """The label has one of these values."""

    name: str
    values: tuple[str, ...]


class Compares(Struct, frozen=True, gc=False):
    """The label is a whole number, and so related to this one."""

    name: str
    sign: str
    number: int


class Not(Struct, frozen=True, gc=False):
    """The rule in it is not met."""

    rule: Rule


class All(Struct, frozen=True, gc=False):
    """Every rule in it is met."""

    rules: tuple[Rule, ...]


class Any(Struct, frozen=True, gc=False):
    """At least one rule in it is met."""

    rules: tuple[Rule, ...]


Rule = Holds | Exists | Among | Compares | Not | All | Any


def matches(rule: Rule, labels: Mapping[str, str]) -> bool:
    """Whether these labels meet the rule."""
    if isinstance(rule, Among):
        return labels.get(rule.name) in rule.values
    if isinstance(rule, Holds):
        return labels.get(rule.name, "false") != "false"
    if isinstance(rule, Exists):
        return rule.name in labels
    if isinstance(rule, Compares):
        return compares(rule, labels.get(rule.name, ""))
    if isinstance(rule, Not):
        return not matches(rule.rule, labels)
    if isinstance(rule, All):
        return all(matches(each, labels) for each in rule.rules)
    return any(matches(each, labels) for each in rule.rules)


_SIGNS: dict[str, Callable[[int, int], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def compares(rule: Compares, value: str) -> bool:
    """Whether a label's value stands to the number as the rule says; what is no number does not."""
    return _NUMBER.fullmatch(value) is not None and _SIGNS[rule.sign](int(value), rule.number)


def parse_rule(text: str) -> Rule | Problem:
    """The rule that was written, or what is wrong with it and at which column."""
    if len(text) > LONGEST_RULE:
        return Problem("rule", f"a rule of {len(text)} letters", f"a rule has at most {LONGEST_RULE}")
    try:
        return _Parser(text).parse()
    except _Odd as odd:
        return Problem("rule", f"rule {quote(text)}, column {odd.column}: {odd.said}", odd.why, fix=odd.fix)


class _Odd(Exception):
    """Leaves the recursion; never leaves this module."""

    def __init__(self, column: int, said: str, why: str, fix: str) -> None:
        super().__init__(said)
        self.column, self.said, self.why, self.fix = column, said, why, fix


class _Token(NamedTuple):
    kind: str
    text: str
    column: int


_END = "end"
# What people write elsewhere, and what it is called here.
_SLIPS: dict[str, str] = {
    "=": "`==` compares",
    "&": "`and` joins",
    "|": "`or` joins",
    "!": "`not` denies",
    "*": "patterns are not supported yet; list the values with `in`",
    '"': "the quote does not end",
    "'": "the quote does not end",
}
_LIKE = "region == eu, arch in (x86_64, arm64), not spot"


def _cut(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    at, stop = 0, len(text.rstrip())
    while at < stop:
        found = _TOKEN.match(text, at)
        if found is None:
            break
        kind = str(found.lastgroup)
        shown, column = found[kind], found.start(kind) + 1
        if kind == "odd":
            raise _Odd(
                column, f"{quote(shown)} means nothing here", _SLIPS.get(shown, ""), f"write it like {_LIKE}"
            )
        tokens.append(_Token(kind, shown[1:-1] if kind == "text" else shown, column))
        at = found.end()
    tokens.append(_Token(_END, "", stop + 1))
    return tokens


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = _cut(text)
        self._at = 0
        self._depth = 0

    def parse(self) -> Rule:
        rule = self._any()
        if self._peek().kind != _END:
            raise self._odd("the end, `and` or `or`")
        return rule

    def _any(self) -> Rule:
        rules = [self._all()]
        while self._took("or"):
            rules.append(self._all())
        return rules[0] if len(rules) == 1 else Any(tuple(rules))

    def _all(self) -> Rule:
        rules = [self._not()]
        while self._took("and"):
            rules.append(self._not())
        return rules[0] if len(rules) == 1 else All(tuple(rules))

    def _not(self) -> Rule:
        self._depth += 1
        if self._depth > DEEPEST_RULE:
            raise _Odd(self._peek().column, "too deep", f"a rule is at most {DEEPEST_RULE} deep", "")
        rule: Rule
        if self._took("not"):
            rule = Not(self._not())
        elif self._took("("):
            rule = self._any()
            self._need(")")
        else:
            rule = self._test()
        self._depth -= 1
        return rule

    def _test(self) -> Rule:
        token = self._peek()
        if token.kind != "word" or token.text in WORDS or not _NAME.fullmatch(token.text):
            raise self._odd("the name of a label")
        self._at += 1
        if self._took("exists"):
            return Exists(token.text)
        if self._took("=="):
            return Among(token.text, (self._value(),))
        if self._took("!="):
            return Not(Among(token.text, (self._value(),)))
        for sign in _SIGNS:
            if self._took(sign):
                return Compares(token.text, sign, self._number())
        if self._took("in"):
            return Among(token.text, self._values())
        if self._took("not"):
            self._need("in")
            return Not(Among(token.text, self._values()))
        return Holds(token.text)

    def _values(self) -> tuple[str, ...]:
        self._need("(")
        values = [self._value()]
        while self._took(","):
            values.append(self._value())
        self._need(")")
        if len(values) > MOST_VALUES:
            raise _Odd(
                self._peek().column, f"{len(values)} values", f"at most {MOST_VALUES} are compared", ""
            )
        return tuple(values)

    def _value(self) -> str:
        token = self._peek()
        if token.kind == "text" or (token.kind == "word" and token.text not in WORDS):
            self._at += 1
            return token.text
        raise self._odd("a value")

    def _number(self) -> int:
        token = self._peek()
        if not _NUMBER.fullmatch(token.text):
            raise self._odd("a whole number")
        self._at += 1
        return int(token.text)

    def _peek(self) -> _Token:
        return self._tokens[self._at]

    def _took(self, text: str) -> bool:
        token = self._peek()
        if token.kind in ("word", "sign") and token.text == text:
            self._at += 1
            return True
        return False

    def _need(self, text: str) -> None:
        if not self._took(text):
            raise self._odd(f"`{text}`")

    def _odd(self, wanted: str) -> _Odd:
        token = self._peek()
        found = "it ends" if token.kind == _END else f"{quote(token.text)} stands"
        return _Odd(token.column, f"{found} where {wanted} is expected", "", f"write it like {_LIKE}")
