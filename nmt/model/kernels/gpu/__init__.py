"""Kernels for NVIDIA GPUs, written in Triton. Import them only where Triton is installed."""
