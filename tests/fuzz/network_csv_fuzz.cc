#include "base/network.h"
#include "tests/fuzz/fuzz.h"

namespace ucudnn {

// What is read is valid and reads back as it is written.
UCUDNN_FUZZ(network_csv, text) {
  const auto network = ParseNetworkCsv(text, "net", "fuzz");
  if (!network) return CheckError(network.error());
  for (const ConvLayer& layer : network->layers) {
    UCUDNN_CHECK(Validate(layer.geometry));
  }
  const auto again = ParseNetworkCsv(ToCsv(*network), "net", "again");
  UCUDNN_CHECK(again && *again == *network);
}

}  // namespace ucudnn
