// As libcuda.so.1, a driver that can name its GPU and nothing else; as
// libcudnn.so.7, a cuDNN 7.6.5 that only tells its version.

#include <cuda.h>

#include <cstddef>
#include <cstring>

#pragma GCC visibility push(default)
extern "C" {

CUresult cuInit(unsigned int) { return CUDA_SUCCESS; }
CUresult cuDriverGetVersion(int* version) {
  *version = 11040;
  return CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult, const char**) { return CUDA_SUCCESS; }
CUresult cuGetErrorString(CUresult, const char**) { return CUDA_SUCCESS; }
CUresult cuDeviceGetCount(int* count) {
  *count = 1;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice*, int) { return CUDA_SUCCESS; }
CUresult cuDeviceGetName(char* name, int size, CUdevice) {
  std::strncpy(name, "Bare GPU", static_cast<std::size_t>(size));
  return CUDA_SUCCESS;
}
CUresult cuDeviceTotalMem(std::size_t* bytes, CUdevice) {
  *bytes = std::size_t{12} << 30;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute, CUdevice) {
  *value = 13;
  return CUDA_SUCCESS;
}

std::size_t cudnnGetVersion();
std::size_t cudnnGetVersion() { return 7605; }

}  // extern "C"
#pragma GCC visibility pop
