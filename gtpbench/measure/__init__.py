"""How it is timed and what is kept: one loop, one calibration, one cell at a time."""
