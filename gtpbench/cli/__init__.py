"""The command line: options in, one library call, one sink call out. Command modules import nothing heavy."""
