"""Tables for a terminal, a page and a paper."""

from __future__ import annotations

import pytest

from nmt.base.tables import formatted


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("-0.34 to +0.37", "$-$0.34 to +0.37"),
        ("-22.43 to -4.10", "$-$22.43 to $-$4.10"),
        ("-0.00", "$-$0.00"),
        ("1e-5", "1e-5"),
        ("runs/base-1", "runs/base-1"),
        ("1.48 ± 1.69", r"1.48 $\pm$ 1.69"),
    ],
)
def test_a_minus_is_no_hyphen_in_latex(cell, expected):
    assert list(formatted([["difference"], [cell]], 0, "latex"))[2] == rf"{expected} \\"
