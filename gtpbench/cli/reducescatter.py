"""`gtpbench reducescatter`."""

from gtpbench.cli import options as o
from gtpbench.cli.collective import CollectiveFlags


def command(
    arm: o.Arms = None,
    symm: o.Symm = False,
    nvls: o.Nvls = None,
    minbytes: o.MinBytes = None,
    maxbytes: o.MaxBytes = None,
    stepfactor: o.StepFactor = None,
    datatype: o.DataType = "bf16",
    op: o.Op = "sum",
    placement: o.Placement = o.PlacementOption.OUT_OF_PLACE,
    num_ranks: o.NumRanks = None,
    backend: o.Backend = o.BackendOption.AUTO,
    clock: o.Clock = o.ClockOption.AUTO,
    hot: o.Hot = False,
    launches: o.Launches = None,
    iters: o.Iters = None,
    warmup: o.Warmup = None,
    time_budget: o.TimeBudget = None,
    seed: o.Seed = None,
    functional: o.Functional = False,
    out: o.Out = None,
    append: o.Append = False,
    allow_skip: o.AllowSkip = False,
    format: o.OutputFormat = o.Format.TABLE,
    save_scenario: o.SaveScenario = None,
) -> None:
    """Measure reduce-scatter over sizes and arms.

    Example: gtpbench reducescatter --symm --num-ranks 2 -b 1M -e 16M
    """
    from gtpbench.cli.execute import Request, execute

    flags = CollectiveFlags(
        collective="reduce_scatter",
        arms=arm,
        symm=symm,
        nvls=nvls,
        min_bytes=minbytes,
        max_bytes=maxbytes,
        step_factor=stepfactor,
        datatype=datatype,
        op=op,
        placement=placement.value,
        num_ranks=num_ranks,
        backend=backend.value,
        clock=clock.value,
        hot=hot,
        launches=launches,
        iters=iters,
        warmup=warmup,
        time_budget=time_budget,
        seed=seed,
        functional=functional,
        allow_skip=allow_skip,
    )
    execute(Request(scenario=flags.scenario, out=out, append=append, format=format.value, save_scenario=save_scenario))
