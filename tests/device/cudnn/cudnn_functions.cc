// Prints which cuDNN the loader finds, with a driver that has its functions,
// and fails unless cuDNN has every function of the tables.

#include <fmt/format.h>

#include "device/cudnn/driver/libraries.h"

int main() {
  using namespace ucudnn::cudnn;
  const auto check = [](const auto& loaded) {
    if (!loaded) fmt::print("{}\n", loaded.error().message);
    return loaded.has_value();
  };
  const auto libraries = LoadedLibraries();
  if (!check(libraries) || !check(CheckOperators((*libraries)->cudnn)))
    return 1;
  fmt::print("cuDNN {} at {} has every function\n",
             CudnnFullVersion((*libraries)->cudnn.GetVersion()),
             (*libraries)->cudnn_library->path());
  return 0;
}
