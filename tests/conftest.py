"""Hypothesis profiles: `tests`, and `fast` for a first look (HYPOTHESIS_PROFILE=fast)."""

import importlib.util
import os

if importlib.util.find_spec("hypothesis"):  # a GPU machine's own Python may lack it: scripts/test-gpu needs none
    from hypothesis import settings

    settings.register_profile("tests", max_examples=60, deadline=None, print_blob=True)
    settings.register_profile("fast", max_examples=10, deadline=None, derandomize=True)
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "tests"))
