"""Corrections against the published example."""

import pytest
from scipy.stats import false_discovery_control

from gtpbench.stats.compare import compare
from gtpbench.stats.family import adjust, decide_family, holm

PUBLISHED = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528,
             0.7590, 1.0]  # fmt: skip
"""The 15 hypotheses of Benjamini & Hochberg (1995), section 3.2."""


def test_benjamini_hochberg_rejects_four():
    """At 5 % the paper's procedure rejects the four smallest; the fourth has adjusted p 0.0095 x 15 / 4."""
    adjusted = adjust(PUBLISHED)
    assert sum(p <= 0.05 for p in adjusted) == 4
    assert adjusted[3] == pytest.approx(0.035625)
    assert adjusted == pytest.approx(list(false_discovery_control(PUBLISHED)))


def test_holm_rejects_three():
    """Holm rejects three: 0.0019 x 13 = 0.0247 passes, 0.0095 x 12 = 0.114 does not."""
    adjusted = holm(PUBLISHED)
    assert sum(p <= 0.05 for p in adjusted) == 3
    assert adjusted[:4] == pytest.approx([0.0015, 0.0056, 0.0247, 0.114])


@pytest.mark.parametrize("method", [adjust, holm])
def test_results_keep_the_order_of_the_cells(method):
    """Each adjusted p stands where its cell stood; none falls below its p or above 1."""
    shuffled = PUBLISHED[::-2] + PUBLISHED[1::2]
    by_value = dict(zip(PUBLISHED, method(PUBLISHED), strict=True))
    assert method(shuffled) == pytest.approx([by_value[p] for p in shuffled])
    assert all(p <= q <= 1 for p, q in zip(shuffled, method(shuffled), strict=True))


@pytest.mark.parametrize("method", [adjust, holm])
def test_families_of_none_and_one(method):
    """No cells give nothing, one cell is left as it is."""
    assert method([]) == []
    assert method([0.03]) == [0.03]


@pytest.mark.parametrize("method", [adjust, holm])
@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_only_probabilities(method, value):
    """A p value outside [0, 1] is refused."""
    with pytest.raises(ValueError, match="between 0 and 1"):
        method([0.5, value])


def test_one_slow_cell_among_others_needs_more_pairs(make_pair):
    """6 launches reach 1/64: enough alone, too little for one cell of four (4/64 > 0.05); 12 launches suffice."""
    few = [compare([make_pair([r] * 2)] * 6, margin=0.03) for r in (1.2, 1.0, 1.0, 1.0)]
    assert [c.outcome for c in few] == ["slower", "same", "same", "same"]
    decided = decide_family(few)
    assert [(c.outcome, c.reason) for c in decided] == [("undecided", "few-pairs")] + [("same", None)] * 3
    assert decided[0].adjusted_p_slower == pytest.approx(4 / 64)
    assert decided[0].adjusted_p_faster == 1.0
    many = [compare([make_pair([r] * 2)] * 12, margin=0.03) for r in (1.2, 1.0, 1.0, 1.0)]
    assert [c.outcome for c in decide_family(many)] == ["slower", "same", "same", "same"]


def test_holm_is_selectable(make_pair):
    """p = 1/64 in both of two cells becomes 1/32 by Holm and stays 1/64 by Benjamini-Hochberg."""
    cells = [compare([make_pair([0.8] * 2)] * 6, margin=0.03)] * 2
    assert [c.adjusted_p_faster for c in decide_family(cells, correction="holm")] == [1 / 32, 1 / 32]
    assert [c.adjusted_p_faster for c in decide_family(cells)] == [1 / 64, 1 / 64]
    assert decide_family(cells)[0].outcome == "faster"
