"""gtpbench: does a communication feature pay, for which sizes, by how much, and did NCCL take that path?"""

__version__ = "0.1.0"
