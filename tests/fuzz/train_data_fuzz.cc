#include <vector>

#include "client/train/data.h"
#include "tests/fuzz/fuzz.h"

namespace ucudnn {
namespace {

void CheckImages(const train::StoredImages& images) {
  std::vector<float> pixels(
      static_cast<std::size_t>(images.extent().elements()));
  for (std::int64_t i = 0; i < images.size(); ++i) {
    UCUDNN_CHECK(images.Label(i) < images.classes());
    images.Read(i, pixels.data());
    for (const float pixel : pixels) UCUDNN_CHECK(pixel >= -1 && pixel <= 1);
  }
}

}  // namespace

// MNIST's images, and its labels from where their magic number stands last;
// and the whole text as CIFAR-10. What is read can be looked at.
UCUDNN_FUZZ(train_data, text) {
  using namespace std::string_view_literals;
  const std::size_t split = std::min(text.rfind("\0\0\x08\x01"sv), text.size());
  const auto mnist = train::ParseMnist(text.substr(0, split), "images",
                                       text.substr(split), "labels");
  if (mnist) {
    CheckImages(*mnist);
  } else {
    CheckError(mnist.error());
  }
  train::StoredImages cifar = train::NoCifar10Images();
  const Status read = train::ParseCifar10(text, "cifar", &cifar);
  if (!read) CheckError(read.error());
  CheckImages(cifar);
}

}  // namespace ucudnn
