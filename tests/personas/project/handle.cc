// An external program with the cuDNN handle. Without a GPU, creating one fails
// with an error, not with a crash.
#include <ucudnn/handle.h>

#include <cstdio>

int main() {
  UcudnnHandle_t handle;
  const cudnnStatus_t status = cudnnCreate(&handle);
  std::printf("ok handle: status %d\n", static_cast<int>(status));
  if (status == CUDNN_STATUS_SUCCESS) cudnnDestroy(handle);
  return 0;
}
