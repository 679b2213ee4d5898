"""Kernel names, as NCCL 2.27 to 2.32 and NCCL EP give them, and what they say."""

import itertools

import pytest

from gtpbench.measure.paths import classify_kernel, function_name, is_peer_copy, snake_case, tuned_algorithm

LSA, MULTICAST, RAIL = "symm_lsa", "symm_multicast", "symm_rail"
SYMMETRIC = {
    "AllGather": {
        "LL": LSA,
        "LLMC": MULTICAST,
        "ST": LSA,
        "STMC": MULTICAST,
        "GinHier_MCRing": RAIL,
        "RailRing_LsaSTMC": RAIL,
        "TmaST": LSA,
        "TmaSTMC": MULTICAST,
    },
    "ReduceScatter": {
        "LL": LSA,
        "LD": LSA,
        "LDMC": MULTICAST,
        "RailA2A_LsaLD": RAIL,
        "RailA2A_LsaLDMC": RAIL,
        "TmaLD": LSA,
    },
    "AllReduce": {
        "AGxLL_R": LSA,
        "AGxLLMC_R": MULTICAST,
        "RSxLD_AGxST": LSA,
        "RSxLDMC_AGxSTMC": MULTICAST,
        "RSxNet_ARxMC_AGxNet": RAIL,
        "RSxTmaLD_AGxTmaST": LSA,
    },
}
"""Every kernel of the list, with the path that its memory path is."""
NAMED = [(function, algorithm, path) for function, named in SYMMETRIC.items() for algorithm, path in named.items()]
OURS = {"AllGather": "all_gather", "ReduceScatter": "reduce_scatter", "AllReduce": "all_reduce"}
DTYPES = ("f32", "f16", "bf16", "f8e4m3", "f8e5m2")
LEGACY_DTYPES = (*DTYPES, "f64", "u8", "u32", "u64")
LEGACY = {
    "ncclDevKernel_AllGather_RING_LL": "all_gather",
    "ncclDevKernel_AllGather_RING": "all_gather",
    "ncclDevKernel_AllGatherV_RING_LL": "all_gather_v",
    "ncclDevKernel_AllGatherV_RING": "all_gather_v",
    "ncclDevKernel_Broadcast_RING_LL": "broadcast",
    "ncclDevKernel_Broadcast_RING": "broadcast",
    "ncclDevKernel_SendRecv": "send_recv",
    "ncclDevKernel_Generic": "generic",
}
LEGACY_REDUCING = {
    "ncclDevKernel_ReduceScatter_Sum_{}_RING_LL": "reduce_scatter",
    "ncclDevKernel_AllReduce_Sum_{}_RING_LL": "all_reduce",
    "ncclDevKernel_AllReduce_Sum_{}_TREE_LL": "all_reduce",
    "ncclDevKernel_Reduce_Sum_{}_RING_LL": "reduce",
    "ncclDevKernel_ReduceScatter_{}_RING": "reduce_scatter",
    "ncclDevKernel_AllReduce_{}_RING": "all_reduce",
    "ncclDevKernel_AllReduce_{}_TREE": "all_reduce",
    "ncclDevKernel_Reduce_{}_RING": "reduce",
}
"""To 2.30 with operation and LL, from 2.31 without."""


def forms(name: str, arguments: str, mangled_arguments: str) -> list[str]:
    """A symbol bare, demangled with and without a return type, and mangled by the Itanium rule."""
    return [
        name,
        f"{name}({arguments})",
        f"void {name}({arguments})",
        f"_Z{len(name)}{name}{mangled_arguments}",
        f"_ZL{len(name)}{name}{mangled_arguments}",
    ]


@pytest.mark.parametrize(("function", "algorithm", "path"), NAMED)
@pytest.mark.parametrize("prefix", ["ncclSymDevKernel", "ncclSymkDevKernel"])
def test_a_symmetric_name_says_all(prefix: str, function: str, algorithm: str, path: str) -> None:
    """Function, algorithm and path, with every operation, type and suffix, mangled and not."""
    typed = [(op, dtype) for op in ("sum", "avg") for dtype in DTYPES] if function != "AllGather" else [(None, None)]
    for (op, dtype), suffix in itertools.product(typed, ("", "_profile")):
        name = f"{prefix}_{function}_{algorithm}" + (f"_{op}_{dtype}" if op else "") + suffix
        for form in forms(name, "ncclSymkDevWorkArgs4K", "21ncclSymkDevWorkArgs4K"):
            seen = classify_kernel(form)
            assert ("symmetric", path, OURS[function], algorithm) == (
                seen.family,
                seen.path,
                seen.collective,
                seen.algorithm,
            ), form
            assert (name, op, dtype) == (seen.name, seen.op, seen.dtype)


def test_the_name_that_a_graph_node_gave() -> None:
    """As read from a captured all-gather; its length prefix and arguments are not part of the name."""
    seen = classify_kernel("_Z30ncclSymkDevKernel_AllGather_ST21ncclSymkDevWorkArgs4K")
    assert ("ncclSymkDevKernel_AllGather_ST", "symm_lsa", "ST") == (seen.name, seen.path, seen.algorithm)
    legacy = classify_kernel("_Z31ncclDevKernel_AllGather_RING_LL24ncclDevKernelArgsStorageILm4096EE")
    assert ("ncclDevKernel_AllGather_RING_LL", "legacy", "all_gather") == (
        legacy.name,
        legacy.family,
        legacy.collective,
    )
    cut = classify_kernel("ncclSymkDevKernel_ReduceScatter_LL_sum_bf16(ncclSymkDevW")
    assert ("symm_lsa", "LL", "sum", "bf16") == (cut.path, cut.algorithm, cut.op, cut.dtype)


@pytest.mark.parametrize(("name", "collective"), LEGACY.items())
def test_a_legacy_name_says_no_path(name: str, collective: str) -> None:
    """Ring, tree, NVLS, PAT and CollNet of every protocol run under it."""
    for form in forms(name, "ncclDevKernelArgsStorage<4096ul>", "24ncclDevKernelArgsStorageILm4096EE"):
        seen = classify_kernel(form)
        assert ("legacy", None, collective, None) == (seen.family, seen.path, seen.collective, seen.algorithm), form
        assert (name, None) == (seen.name, seen.dtype)


@pytest.mark.parametrize("dtype", LEGACY_DTYPES)
@pytest.mark.parametrize(("pattern", "collective"), LEGACY_REDUCING.items())
def test_a_reducing_legacy_name_says_its_type(pattern: str, collective: str, dtype: str) -> None:
    """From 2.31 without operation."""
    name = pattern.format(dtype)
    for form in forms(name, "ncclDevKernelArgsStorage<4096ul>", "24ncclDevKernelArgsStorageILm4096EE"):
        seen = classify_kernel(form)
        assert ("legacy", None, collective, dtype) == (seen.family, seen.path, seen.collective, seen.dtype), form
        assert ("sum" if "_Sum_" in name else None) == seen.op


@pytest.mark.parametrize(
    ("step", "collective"),
    [
        ("ll_dispatch", "dispatch"),
        ("ll_combine", "combine"),
        ("ht_dispatch", "dispatch"),
        ("ht_combine", "combine"),
        ("ht_local_dup", None),
        ("ht_local_reduce", None),
        ("local_permute_dup", None),
        ("local_permute_reduce", None),
        ("ht_scan_flat", None),
        ("ht_scan_em", None),
        ("build_em_tables", None),
    ],
)
def test_nccl_ep_kernels(step: str, collective: str | None) -> None:
    """Compiled at run time, under one prefix."""
    for form in forms(f"nccl_ep_jit_{step}_kernel", "EpArgs", "6EpArgs"):
        seen = classify_kernel(form)
        assert ("ep", "ep_kernel", step, collective) == (seen.family, seen.path, seen.algorithm, seen.collective)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "ncclSymkDevKernel_AllGather_NEW(ncclSymkDevWorkArgs4K)",
        "ncclSymkDevKernel_AllGather_STX",
        "ncclSymkDevKernel_Broadcast_ST",
        "ncclSymkDevKernel_ReduceScatter_LD_max_bf16",
        "ncclDevKernel_AllGather_RING_LL128",
        "ncclDevKernel_AllToAll_RING",
        "ncclDevKernel_ReduceScatter_Prod_bf16_RING_LL",
        "my_ncclDevKernel_AllGather_RING_LL",
        "xncclSymkDevKernel_AllGather_ST",
        "ncclDevKernel_AllGather_RING_LLx",
        "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int>>(int)",
        "sparse_to_dense_prob_kernel(float*)",
        "_Z31ncclSymkDevKernel_AllGather_ST",
        "_Z6kernelPf",
        "_ZN4nccl6kernelEPf",
        "_Z",
        "Memcpy DtoD (Device -> Device)",
        "memcpy",
    ],
)
def test_what_matches_nothing_is_unknown(name: str) -> None:
    """Never legacy, above all."""
    seen = classify_kernel(name)
    assert ("unknown", "unknown", None) == (seen.family, seen.path, seen.collective)


def test_a_mangled_name_is_cut_by_its_length() -> None:
    """What follows belongs to the arguments, whatever it looks like."""
    assert "kernel" == function_name("_Z6kernelPf")
    assert "ncclDevKernel_SendRecv" == function_name("_Z22ncclDevKernel_SendRecv_LL")
    assert "_Z40ncclDevKernel_SendRecv" == function_name("_Z40ncclDevKernel_SendRecv")
    assert "_Z0x" == function_name("_Z0x")


@pytest.mark.parametrize(
    ("name", "copies"),
    [
        ("Memcpy DtoD (Device -> Device)", True),
        ("Memcpy PtoP (Device -> Device)", True),
        ("memcpy", True),
        ("Memcpy HtoD (Pageable -> Device)", False),
        ("Memcpy DtoH (Device -> Pinned)", False),
        ("Memcpy DtoDx", False),
        ("Memset (Device)", False),
        ("batch_mem_op", False),
        ("memcpy_kernel", False),
    ],
)
def test_rows_of_the_copy_engines(name: str, copies: bool) -> None:
    """Between devices, under either label."""
    assert copies is is_peer_copy(name)


@pytest.mark.parametrize(("function", "algorithm", "path"), NAMED)
def test_tuning_names_a_kernel_by_the_same_words(function: str, algorithm: str, path: str) -> None:
    """The middle of the symbol."""
    assert (algorithm, path) == tuned_algorithm(f"{function}_{algorithm}")


def test_a_tuned_kernel_that_is_not_known() -> None:
    """Its name is kept."""
    assert ("AllGather_NEW", "unknown") == tuned_algorithm("AllGather_NEW")
    assert ("AllGather_STX", "unknown") == tuned_algorithm("AllGather_STX")


def test_functions_in_our_words() -> None:
    """As our files write them."""
    assert ["all_gather", "reduce_scatter", "all_gather_v", "generic"] == [
        snake_case(name) for name in ("AllGather", "ReduceScatter", "AllGatherV", "Generic")
    ]
