#include <vector>

#include "solver/arena/concurrency.h"
#include "solver/arena/ws.h"
#include "solver/check/validate.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/instance.h"

namespace ucudnn {
namespace {

// Nodes as the bytes have them: a tree or not.
Concurrency AnyNodes(FuzzBytes& bytes) {
  Concurrency concurrency;
  for (std::int64_t n = bytes.Byte() % 16; n > 0; --n) {
    Concurrency::Node node;
    node.kind = static_cast<Concurrency::Kind>(bytes.Byte() % 3);
    node.leaf = static_cast<std::size_t>(bytes.Byte() % 8);
    for (std::int64_t p = bytes.Byte() % 4; p > 0; --p) {
      node.parts.push_back(static_cast<std::size_t>(bytes.Byte() % 16));
    }
    concurrency.nodes.push_back(std::move(node));
  }
  return concurrency;
}

// The structure of an order that the bytes have; no pair may be lost.
Concurrency OfOrder(FuzzBytes& bytes, std::size_t size) {
  PartialOrder order(size);
  for (std::size_t b = 0; b < size; ++b) {
    const auto before = static_cast<std::uint64_t>(bytes.Byte());
    for (std::size_t a = 0; a < b; ++a) {
      if (((before >> (a % 8)) & 1) != 0) order.Put(a, b);
    }
  }
  Concurrency concurrency = Decompose(order);
  UCUDNN_CHECK(Validate(concurrency, size).has_value());
  std::size_t real = 0;
  for (std::size_t b = 0; b < size; ++b) {
    for (std::size_t a = 0; a < b; ++a) {
      real += order.Before(a, b) ? 0 : 1;
    }
  }
  const std::size_t found = ConcurrentPairs(concurrency).size();
  UCUDNN_CHECK(concurrency.exact ? found == real : found > real);
  return concurrency;
}

}  // namespace

// A plan that an independent check accepts, or an error.
UCUDNN_FUZZ(ws, text) {
  FuzzBytes bytes(text);
  const WrRequest request = FuzzRequest(bytes);
  const auto kernels = static_cast<std::size_t>(1 + bytes.Byte() % 6);
  const Concurrency concurrency =
      bytes.Byte() % 8 == 0 ? AnyNodes(bytes) : OfOrder(bytes, kernels);
  Profile profile;
  while (profile.kernels.size() < kernels) {
    profile.kernels.push_back(FuzzKernel(bytes, profile.kernels.size()));
  }
  WsLimits limits;
  limits.search.max_nodes = 10'000;
  limits.max_front = 50;
  const auto plan = SolveWs(profile, concurrency, request, limits);
  if (!plan) return CheckError(plan.error());
  const auto pairs = ConcurrentPairs(concurrency);
  UCUDNN_CHECK(ValidatePlan(*plan, profile,
                            {WorkspaceMode::kShared, request.policy, pairs}));
}

}  // namespace ucudnn
