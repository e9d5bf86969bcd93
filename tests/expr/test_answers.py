"""What filters mean: every filter string of the corpus against plain Python, as table and as batch."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lancecy.expr import bind, describe, evaluate, mask, parse
from lancecy.expr.nodes import Expr
from tests.expr.corpus import filters
from tests.expr.oracle import answers
from tests.expr.tables import every_kind
from tests.helpers.folded import folded


def parsed(text: str) -> Expr:
    found = parse(text)
    assert found is not None
    return found


FILTERS = filters()


@pytest.mark.slow
@folded("group", FILTERS)
def test_answer_is_that_of_plain_python(group: str) -> None:
    for text in FILTERS[group]:
        check_answer(text)


def check_answer(text: str) -> None:
    table = every_kind()
    bound = bind(parsed(text), table.schema, boolean=True)
    needed = table.select(bound.columns) if bound.columns else table.select(["id"])
    expected = answers(folded_names(parsed(text)), table)
    found = evaluate(bound, table)
    assert found.type == pa.bool_() == bound.type, text
    assert found.to_pylist() == expected, text
    assert str(bound) == describe(bound.expr, max_values=10)
    assert mask(bound, needed.combine_chunks().to_batches()[0]).to_pylist() == expected, text
    # Only the columns it names are needed, and the answers do not depend on how rows are chunked.
    pieces = pa.concat_tables([needed.slice(i, 1) for i in range(table.num_rows)])
    assert evaluate(bound, pieces).to_pylist() == expected, text
    assert evaluate(bound, needed.slice(3, 0)).to_pylist() == [], text


def folded_names(expr: Expr) -> Expr:
    """The oracle knows no case folding: names of the corpus that differ in case are put right."""
    return parsed(describe(expr).replace("I8", "i8").replace("ST.X", "st.x"))


@pytest.mark.slow
@folded("group", FILTERS)
def test_description_reads_back_as_the_same_condition(group: str) -> None:
    table = every_kind()
    for text in FILTERS[group]:
        expr = parsed(text)
        again = parsed(describe(expr))
        both = [evaluate(bind(e, table.schema), table).to_pylist() for e in (again, expr)]
        assert both[0] == both[1], text
        assert describe(parsed(describe(again))) == describe(again), text
