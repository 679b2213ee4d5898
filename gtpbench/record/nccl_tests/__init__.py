"""Results of nccl-tests, read from its text and JSON output and turned into records of origin `imported`.

    FILE -> read.read_output -> Output (both formats alike) -> options.arm_of, environment, records -> folder

Read against nccl-tests 2.19.6 (JSON version 3; 1 and 2 hold a part of its fields). Of everything in a file, only what a
record has a field for is kept: host names are hashed, environment variables pass the allow-list, paths are dropped.
"""
