"""The command of a stand-alone collective; `allgather` and `reducescatter` differ in nothing but the collective."""

from collections.abc import Callable

from gtpbench.cli import options as o
from gtpbench.cli.collective import CollectiveFlags


def collective_command(collective: str, *, doc: str) -> Callable[..., None]:
    """A Typer command that measures `collective`; `doc` is its help."""

    def command(
        *,
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
        ranks_per_gpu: o.RanksPerGpu = None,
        backend: o.Backend = o.BackendOption.AUTO,
        clock: o.Clock = o.ClockOption.AUTO,
        hot: o.Hot = False,
        launches: o.Launches = None,
        iters: o.Iters = None,
        warmup: o.Warmup = None,
        time_budget: o.TimeBudget = None,
        seed: o.Seed = None,
        functional: o.Functional = False,
        registration_cost: o.RegistrationCost = False,
        buffers: o.Buffers = None,
        out: o.Out = None,
        append: o.Append = False,
        allow_skip: o.AllowSkip = False,
        format: o.OutputFormat = o.Format.TABLE,
        save_scenario: o.SaveScenario = None,
    ) -> None:
        from gtpbench.cli.execute import Request, execute

        flags = CollectiveFlags(
            collective=collective,
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
            ranks_per_gpu=ranks_per_gpu,
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
            registration_cost=registration_cost,
            buffers=buffers,
        )
        execute(
            Request(scenario=flags.scenario, out=out, append=append, format=format.value, save_scenario=save_scenario)
        )

    command.__doc__ = doc
    return command
