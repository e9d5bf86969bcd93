"""The SQL dialect for sqlglot: tokens, precedence, type names, and the text of its errors.

The dialect has backquoted names, ``X'00'`` bytes and IS below the comparisons, as in DataFusion and PostgreSQL, and
keeps function calls as written.

Columns may be named like keywords: ``when > 3`` and ``group IS NULL`` need no backquotes. A keyword that cannot start an
operand, where an operand must come, would be an error; a pass over the tokens before the parser makes it the name that
the user meant, and that pylance reads. So is the name of a type in front of a bracket, as in ``date(t)`` or ``struct(a)``.
No valid text changes its meaning.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, ClassVar

import pyarrow as pa

from lancecy.errors import ExpressionError, nearest, printable

__all__ = ["data_type", "dialect", "free_names", "interval_text", "syntax_error"]


_NEEDED = "sqlglot 30.30 or newer"


@lru_cache(maxsize=1)
def dialect() -> Any:
    """The dialect class; made at first use because its bases come from sqlglot.

    Raises
    ------
    ImportError
        sqlglot is missing, or too old to be told about precedence.
    """
    from sqlglot import parse_one, parser, tokens
    from sqlglot.dialects.dialect import Dialect

    special = parser.Parser.FUNCTION_PARSERS
    levels: Any = getattr(parser, "IsPredicatePrecedence", None)
    if levels is None:
        raise ImportError(f"filters in SQL text need {_NEEDED}")

    class LancecyFilter(Dialect):
        class Tokenizer(tokens.Tokenizer):
            QUOTES: ClassVar[Any] = ["'"]
            IDENTIFIERS: ClassVar[Any] = ["`"]
            HEX_STRINGS: ClassVar[Any] = [("x'", "'"), ("X'", "'")]
            # Double quotes mark names in standard SQL and strings in pylance: kept apart, then refused.
            RAW_STRINGS: ClassVar[Any] = ['"']
            # No statement begins here: these words would swallow the rest of the text unread.
            COMMANDS: ClassVar[Any] = set()

        class Parser(parser.Parser):
            IS_PREDICATE_PRECEDENCE = levels.LOW
            # Only calls with a syntax of their own; all others arrive as Anonymous, spelled as written.
            FUNCTIONS: ClassVar[Any] = {}
            FUNCTION_PARSERS: ClassVar[Any] = {
                name: special[name] for name in ("CAST", "EXTRACT", "SUBSTRING", "TRIM", "TRY_CAST")
            }
            # POSITION(x IN s), and position(s, x) in the order of pylance.
            FUNCTION_PARSERS["POSITION"] = lambda self: self._parse_position(haystack_first=True)
            # What follows NULL[ would be read twice, as a type and as an operand.
            TYPE_TOKENS: ClassVar[Any] = frozenset(
                kind for kind in parser.Parser.TYPE_TOKENS if kind.name != "NULL"
            )
            NO_PAREN_FUNCTIONS: ClassVar[Any] = {}
            NO_PAREN_FUNCTION_PARSERS: ClassVar[Any] = {
                "CASE": parser.Parser.NO_PAREN_FUNCTION_PARSERS["CASE"]
            }

    # Precedence decides which rows match: the installed release has to prove it.
    if type(parse_one("a = b IS NULL", dialect=LancecyFilter)).__name__ != "Is":
        raise ImportError(f"filters in SQL text need {_NEEDED}")
    return LancecyFilter


def syntax_error(text: str, error: Any) -> ExpressionError:
    """Convert sqlglot's ParseError to an error with the character where reading stopped."""
    details = error.errors[0] if error.errors else {}
    what = str(details.get("description") or "it is empty")
    if what.startswith("Required keyword"):
        what = "an operand is missing"
    elif what.startswith("Invalid expression"):
        what = "unexpected text"
    if not details.get("line"):
        return ExpressionError(f"cannot read the expression {text!r}: {what}", text=text)
    highlight = str(details.get("highlight") or "")
    before = text.split("\n")[: int(details["line"]) - 1]
    position = sum(len(line) + 1 for line in before) + max(0, int(details["col"]) - len(highlight))
    near = f" near {highlight!r}" if highlight else ""
    remedy = "; AND joins conditions" if highlight == "&&" else ""
    return ExpressionError(
        f"cannot read the expression {text!r}: {what}{near} at character {position}{remedy}",
        text=text,
        position=position,
    )


_TYPES: dict[str, pa.DataType] = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "UTINYINT": pa.uint8(),
    "USMALLINT": pa.uint16(),
    "UINT": pa.uint32(),
    "UBIGINT": pa.uint64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "TEXT": pa.string(),
    "VARCHAR": pa.string(),
    "CHAR": pa.string(),
    "BINARY": pa.binary(),
    "VARBINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIME": pa.time64("us"),
}
_TYPE_NAMES = "boolean tinyint smallint int bigint float double decimal string varchar binary date time timestamp".split()
_TIMESTAMPS = {"TIMESTAMP": None, "DATETIME": None, "TIMESTAMPNTZ": None, "TIMESTAMPTZ": "UTC"}
_UNITS = {0: "s", 3: "ms", 6: "us", 9: "ns"}


def data_type(node: Any) -> pa.DataType:
    """Arrow type of a type name in SQL, as pylance maps them.

    Raises
    ------
    ExpressionError
        The type is unknown; the message has the nearest ones.
    """
    name = getattr(node.this, "name", str(node.this))
    parameters = [int(p.name) for p in node.args.get("expressions") or () if str(p.name).isdigit()]
    if len(parameters) == len(node.args.get("expressions") or ()):
        if name in _TYPES and not parameters:
            return _TYPES[name]
        if name in _TIMESTAMPS and (parameters or [6])[0] in _UNITS and len(parameters) < 2:
            return pa.timestamp(_UNITS[(parameters or [6])[0]], tz=_TIMESTAMPS[name])
        if name == "DECIMAL" and len(parameters) <= 2:
            precision, scale = [*parameters, *([38, 10] if not parameters else [0])][:2]
            if 1 <= precision <= 38 and scale <= precision:
                return pa.decimal128(precision, scale)
    shown = node.sql()
    close = nearest(shown.lower(), _TYPE_NAMES) or _TYPE_NAMES
    raise ExpressionError(f"cannot CAST to {printable(shown)}; did you mean {', '.join(close)}?")


# -- columns named like keywords --------------------------------------------------------------


_WORD = re.compile(r"[^\W\d]\w*\Z")

# Tokens that can follow an operand. A word in front of anything else keeps its meaning: a call, a typed literal
# such as date '2024-05-01', the start of something longer.
_SIGNS = frozenset(
    "EQ NEQ NULLSAFE_EQ LT LTE GT GTE PLUS DASH STAR SLASH MOD DPIPE DOT DCOLON R_PAREN R_BRACKET COMMA".split()
)
_FOLLOWERS = _SIGNS | frozenset(
    "AND OR NOT IS IN BETWEEN LIKE ILIKE ESCAPE FROM FOR ALIAS WHEN THEN ELSE END".split()
)
# After these the next operand begins.
_OPENERS = (_SIGNS - {"DOT", "DCOLON", "R_PAREN", "R_BRACKET"}) | frozenset(
    "AND OR BETWEEN LIKE ILIKE ESCAPE FROM FOR CASE WHEN THEN ELSE L_PAREN L_BRACKET".split()
)
_BEFORE_TYPES = frozenset({"ALIAS", "DCOLON"})
# In front of a string these make a literal, so that double quotes cannot mark a name there.
_LITERALS = frozenset("DATE DATETIME TIME TIMESTAMP".split())
# These are operands or start one.
_OPERANDS = frozenset({"NULL", "TRUE", "FALSE", "CASE", "VAR", "IDENTIFIER"})
# So do these; they are names only in front of tokens that cannot belong to them.
_PREFIXES = {"NOT": _SIGNS - {"PLUS", "DASH"}, "INTERVAL": _FOLLOWERS - {"PLUS", "DASH"}}


# sqlglot takes the first number and the first unit out of an interval, and drops the text around them unread.
_HIDDEN = {ord("0") + digit: 0xE000 + digit for digit in range(10)}
_SHOWN = {hidden: shown for shown, hidden in _HIDDEN.items()}


def interval_text(node: Any) -> tuple[str, str]:
    """The text and the unit of an interval as written; the unit may be empty.

    Raises
    ------
    ExpressionError
        It has a range of units, or no text.
    """
    unit = node.args.get("unit")
    if type(node.this).__name__ != "Literal" or type(unit).__name__ not in ("NoneType", "Var"):
        raise ExpressionError(
            f"{printable(node.sql().translate(_SHOWN))} is no interval; write it as interval '1 month 2 days'"
        )
    return str(node.this.this).translate(_SHOWN), "" if unit is None else str(unit.name)


def free_names(tokens: Sequence[Any]) -> None:
    """Turn keywords that can only be names into names, and the text of ``date "2024-05-01"`` into a string, in place.

    Parameters
    ----------
    tokens : sequence of sqlglot Token
        Tokens of a filter or a computed column.

    Raises
    ------
    ExpressionError
        ``::`` with brackets behind the type.
    """
    types = dialect().parser_class.TYPE_TOKENS
    wanted, previous = True, ""
    for index, token in enumerate(tokens):
        kind = token.token_type.name
        following = tokens[index + 1].token_type.name if index + 1 < len(tokens) else ""
        is_first_branch = kind == "WHEN" and previous == "CASE"
        is_type = token.token_type in types and kind not in _PREFIXES
        if is_type and following == "L_BRACKET" and previous == "DCOLON":
            raise ExpressionError(f"cannot CAST to {printable(token.text)}[…]: there is no such type")
        is_call = is_type and previous not in _BEFORE_TYPES and _is_call(tokens, index + 1)
        if is_call or (wanted and not is_first_branch and _is_name(kind, token.text, following)):
            token.token_type = type(token.token_type).VAR
            kind = "VAR"
        if kind == "RAW_STRING" and previous in _LITERALS:
            token.token_type = type(token.token_type).STRING
        if kind == "STRING" and previous == "INTERVAL":
            token.text = token.text.translate(_HIDDEN)
        # A NOT in front of an operand still expects it; a NOT behind one (NOT IN, NOT LIKE) does not.
        wanted = kind in _OPENERS or (wanted and kind == "NOT")
        previous = kind


def _is_call(tokens: Sequence[Any], start: int) -> bool:
    """Whether a bracket stands here, and not the sizes of a typed literal, as in ``timestamp(3) '2024-05-01'``.

    The parser would read what is in the bracket as part of a type first, and then once more as that of a call: of
    nested calls twice as often for each level.
    """
    kinds = (tokens[index].token_type.name for index in range(start, len(tokens)))
    first = next(kinds, "")
    if first != "L_PAREN":
        return first == "L_BRACKET"
    behind = next((kind for kind in kinds if kind not in ("NUMBER", "COMMA")), "")
    return behind != "R_PAREN" or next(kinds, "") != "STRING"


def _is_name(kind: str, text: str, following: str) -> bool:
    # Strings of every kind come without their quotes.
    if kind in _OPERANDS or kind.endswith("STRING") or not _WORD.match(text):
        return False
    return not following or following in _PREFIXES.get(kind, _FOLLOWERS)
