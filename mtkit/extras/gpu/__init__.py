"""What only a GPU needs: other modules for training, kernels in Triton, CUDA graphs."""
