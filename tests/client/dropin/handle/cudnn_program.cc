// Looks up cuDNN's functions by name, calls them, and prints what they return;
// "missing" for those that it does not find.

#include <cudnn.h>
#include <dlfcn.h>

#include <cstdio>

int main() {
  using Convolve = decltype(&cudnnConvolutionForward);
  using Size = decltype(&cudnnGetConvolutionForwardWorkspaceSize);
  const auto convolve = reinterpret_cast<Convolve>(
      dlsym(RTLD_DEFAULT, "cudnnConvolutionForward"));
  const auto size = reinterpret_cast<Size>(
      dlsym(RTLD_DEFAULT, "cudnnGetConvolutionForwardWorkspaceSize"));
  if (convolve == nullptr || size == nullptr) {
    std::puts("missing");
    return 0;
  }
  std::size_t bytes = 0;
  const float one = 1;
  const int first = size(nullptr, nullptr, nullptr, nullptr, nullptr,
                         CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, &bytes);
  const int second = convolve(nullptr, &one, nullptr, nullptr, nullptr, nullptr,
                              nullptr, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM,
                              nullptr, 0, &one, nullptr, nullptr);
  std::puts(first != 0 && second != 0 ? "refused" : "accepted");
  return 0;
}
