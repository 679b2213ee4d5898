"""What is timed: workloads drive a Backend and never import torch."""
