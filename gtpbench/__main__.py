"""`python -m gtpbench`, also what torchrun and srun start."""

from gtpbench.cli.app import main

if __name__ == "__main__":
    main()
