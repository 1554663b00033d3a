"""What only a GPU needs: kernels in Triton."""
