#ifndef UCUDNN_COORDINATOR_NETWORKS_NETWORK_SERVICE_H_
#define UCUDNN_COORDINATOR_NETWORKS_NETWORK_SERVICE_H_

// The networks that plans are made for. Callers include ucudnn/v1/*.pb.h for
// the messages.

#include "base/result.h"
#include "coordinator/context.h"
#include "proto/messages_fwd.h"

namespace ucudnn {

// Thread-safe. What a call acknowledges is stored.
class NetworkService {
 public:
  explicit NetworkService(Context& context)
      : store_(context.store), clock_(context.clock) {}

  // See proto/ucudnn/v1/coordinator.proto.
  Result<v1::Network> PutNetwork(const v1::PutNetworkRequest& request);
  Result<v1::ListNetworksResponse> ListNetworks(const v1::ListRequest& request);
  Result<v1::Network> GetNetwork(const v1::GetRequest& request);

 private:
  Result<v1::Network> Latest(const std::string& name);

  Store& store_;
  const Clock& clock_;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_NETWORKS_NETWORK_SERVICE_H_
