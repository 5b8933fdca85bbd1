#include "coordinator/networks/network_service.h"

#include <openssl/evp.h>

#include <iterator>
#include <utility>

#include "base/files/file.h"
#include "base/onnx/network_file.h"
#include "base/text.h"
#include "coordinator/limits.h"
#include "coordinator/networks/stored_network.h"
#include "coordinator/page.h"
#include "coordinator/request_check.h"
#include "proto/convert.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {
namespace {

// A network's convolutions as the store keeps them.
std::string LayersOf(const Network& network) {
  v1::Network message;
  for (const ConvLayer& layer : network.layers) {
    *message.add_layers() = ToProto(layer);
  }
  return message.SerializeAsString();
}

// The network's file with the sizes that the request has for it.
Result<std::string> Sized(const v1::PutNetworkRequest& request) {
  if (request.input_shape_size() > kMaxInputShapes) {
    return Fail(Code::kInvalidArgument,
                "input_shape: {} shapes; up to {} are accepted",
                request.input_shape_size(), kMaxInputShapes);
  }
  InputShapes shapes;
  for (const std::string& text : request.input_shape()) {
    Result<InputShape> shape = ParseInputShape(text);
    if (!shape) return Within("input_shape", std::move(shape).error());
    shapes.push_back(*std::move(shape));
  }
  return WithShapes(request.content(), shapes, request.name());
}

}  // namespace

std::string Sha256(std::string_view text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  UCUDNN_CHECK(EVP_Digest(text.data(), text.size(), digest, &size, EVP_sha256(),
                          nullptr) == 1);
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) {
    fmt::format_to(std::back_inserter(hex), "{:02x}", digest[i]);
  }
  return hex;
}

Result<v1::Network> ToProto(const NetworkRecord& record) {
  v1::Network network;
  if (!network.ParseFromString(record.layers)) {
    return Fail(Code::kDataLoss,
                "the stored layers of network {} cannot be read back",
                record.name);
  }
  network.set_name(record.name);
  network.set_revision(record.revision);
  network.set_format(std::string(Name(record.format)));
  network.set_updated_ms(record.created_ms);
  network.set_hash(record.hash);
  return network;
}

Result<v1::Network> NetworkService::PutNetwork(
    const v1::PutNetworkRequest& request) {
  UCUDNN_RETURN_IF_ERROR(CheckName(request.name()));
  UCUDNN_ASSIGN_OR_RETURN(std::string content, OfInput(Sized(request)));
  UCUDNN_ASSIGN_OR_RETURN(const Network network,
                          OfInput(ParseNetwork(content, request.name(),
                                               BatchSize(1), request.name())));
  NetworkRecord record;
  record.name = request.name();
  record.format =
      IsNetworkCsv(content) ? NetworkFormat::kCsv : NetworkFormat::kOnnx;
  record.layers = LayersOf(network);
  record.hash = Sha256(content);
  record.source = std::move(content);
  record.created_ms = clock_.NowMs();
  UCUDNN_RETURN_IF_ERROR(store_.networks.PutNetwork(record));
  return Latest(request.name());
}

Result<v1::ListNetworksResponse> NetworkService::ListNetworks(
    const v1::ListRequest& request) {
  v1::ListNetworksResponse response;
  constexpr std::size_t kJsonOverWire = 12;  // of layers
  PageBytes bytes;
  std::string after = request.after();
  UCUDNN_RETURN_IF_ERROR(FillPage(
      request,
      [&](int limit) { return store_.networks.ListNetworks(limit, after); },
      [&](const NetworkRecord& network) -> Result<bool> {
        after = network.name;
        v1::Network& added = *response.add_networks();
        UCUDNN_ASSIGN_OR_RETURN(added, ToProto(network));
        return bytes.Fill(added, kJsonOverWire);
      }));
  return response;
}

Result<v1::Network> NetworkService::GetNetwork(const v1::GetRequest& request) {
  return Latest(request.id());
}

Result<v1::Network> NetworkService::Latest(const std::string& name) {
  UCUDNN_ASSIGN_OR_RETURN(const NetworkRecord network,
                          store_.networks.GetNetwork(name));
  return ToProto(network);
}

}  // namespace ucudnn
