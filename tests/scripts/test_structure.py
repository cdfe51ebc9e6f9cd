"""What counts as size, and what does not."""

from __future__ import annotations

import ast

import pytest

from scripts.structure import num_nodes


@pytest.mark.parametrize(
    ("code", "same"),
    [
        ("def double(n: int) -> list[int]:\n    return n + n", "def double(n):\n    return n + n"),
        ('"""A module."""\nclass A:\n    """A class."""\n    b = 1', "class A:\n    b = 1"),
        ("size: int = 3", "size: dict[str, list[int]] = 3"),
        ("a  =  1  # why", "a = 1"),
    ],
)
def test_types_docstrings_and_comments_cost_nothing(code, same):
    assert num_nodes(ast.parse(code)) == num_nodes(ast.parse(same))


def test_a_name_for_a_step_costs_three_nodes():
    """An assignment, its target, and the name where it is read; marks of loading and storing are not counted."""
    with_name = num_nodes(ast.parse("total = a + b\nprint(total)"))
    assert with_name - num_nodes(ast.parse("print(a + b)")) == 3


def test_a_text_that_is_no_docstring_counts():
    assert num_nodes(ast.parse("rules = 'a b c'")) == 4
    assert num_nodes(ast.parse("a = 1\n'said beside it'")) == num_nodes(ast.parse("a = 1")) + 2
