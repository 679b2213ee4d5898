"""The figures: bandwidth and time over size."""

from gtpbench.arms import ARMS
from gtpbench.report.figures import BUSBW, TIME, Quantity
from gtpbench.report.plots import render_png, render_svg, style_of
from gtpbench.report.view import build_view
from tests.unit.report.factory import make_case, make_record
from tests.unit.report.runs import view_of


def _svg(name: str, quantity: Quantity = BUSBW) -> str:
    content = render_svg(view_of(name), quantity)
    assert content is not None
    return content.decode()


def test_svg_is_the_same_bytes_twice() -> None:
    """No date, no random id."""
    assert _svg("gpu") == _svg("gpu")
    assert "dc:date" not in _svg("gpu")


def test_title_says_the_origin() -> None:
    """Nobody takes CPU ranks for NVLink."""
    assert "CPU ranks: a demonstration, not NVLink" in _svg("cpu")
    assert "measured on GPUs" in _svg("gpu")


def test_axes_name_quantity_and_unit() -> None:
    """Size labels are those of the sweep, the rate has unit and direction."""
    svg = _svg("cpu")
    for text in ("bus bandwidth, GB/s", "(higher is better)", "64KiB", "1MiB", "16MiB", "none", "symm"):
        assert f">{text}<" in svg.replace("\n", "")


def test_one_panel_a_group() -> None:
    """All-gather and reduce-scatter are apart."""
    svg = _svg("gpu")
    assert svg.count("bus bandwidth, GB/s") == 2
    assert "hollow: not proved" in svg


def test_panels_of_several_origins_are_labelled() -> None:
    """Each panel names its own origin."""
    records = [make_record("none"), make_record("none", origin="modelled")]
    content = render_svg(build_view(records, {}), BUSBW)
    assert content is not None
    assert b"MODELLED" in content and b"CPU ranks, a demonstration" in content


def test_png() -> None:
    """A PNG, and free of the library's name and date."""
    content = render_png(view_of("cpu"), BUSBW)
    assert content is not None and content.startswith(b"\x89PNG")
    assert b"Software" not in content


def test_nothing_to_plot() -> None:
    """Ranks that share a GPU have no bandwidth, and a run without timings no figure at all."""
    assert render_svg(view_of("shared_gpu"), BUSBW) is None
    assert render_png(view_of("shared_gpu"), BUSBW) is None
    skipped = build_view([make_record("none", status="skipped", reason=("no_gpu", "needs a GPU"))], {})
    assert render_svg(skipped, TIME) is render_svg(skipped, BUSBW) is None


def test_shared_gpu_has_times_and_no_judgement() -> None:
    """Time over size, the origin in the title, and no word of what is better."""
    svg = _svg("h200", TIME)
    assert "times say nothing about separate GPUs" in svg
    assert "time of one operation, us" in svg and "graph clock" in svg
    assert "better" not in svg and "GB/s" not in svg


def test_times_are_on_a_logarithmic_axis() -> None:
    """Plain numbers at 1, 2 and 5 of each decade, and the direction."""
    svg = _svg("gpu", TIME)
    assert all(f">{number}<" in svg for number in (10, 20, 50, 100, 200, 500, 1000))
    assert "lower is better" in svg


def test_a_last_line_of_panels_may_be_short() -> None:
    """Three groups take three panels, not four; a single size is no special case, and odd bytes are written out."""
    records = [make_record("none", case=make_case(dtype=dtype, size_bytes=37748736)) for dtype in ("bf16", "fp32")]
    records.append(make_record("none", case=make_case(dtype="uint8", size_bytes=37748742, num_ranks=3)))
    content = render_svg(build_view(records, {}), BUSBW)
    assert content is not None
    assert content.count(b"bus bandwidth, GB/s") == 3
    assert b">37748742B<" in content


def test_rounded_sizes_are_labelled_by_the_requested_one() -> None:
    """With a sign that says so."""
    record = make_record("none", case=make_case(size_bytes=65532, requested_bytes=65536, num_ranks=3))
    content = render_svg(build_view([record], {}), BUSBW)
    assert content is not None
    assert ">≈64KiB<" in content.decode()


def test_no_two_arms_look_alike() -> None:
    """Every arm of the table has a combination of colour, marker and line of its own, and so has each marker."""
    styles = [style_of(number) for number in range(len(ARMS))]
    assert len({marker for _, marker, _ in styles}) == len(set(styles)) == len(ARMS)
