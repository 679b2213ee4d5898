"""Processes: the supervisor without torch, the ranks it starts, and the launchers it can be started by."""
