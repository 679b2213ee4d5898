"""What may spoil a run: one check a function, each from an `Environment` to a finding or None; pure."""

from gtpbench.doctor.preflight import CHECKS, Check, preflight

__all__ = ["CHECKS", "Check", "preflight"]
