"""Complex numbers and Fourier transforms: the cores `fft` and `zip`, and complex products on `gemm`."""
