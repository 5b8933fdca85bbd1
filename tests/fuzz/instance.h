#ifndef UCUDNN_TESTS_FUZZ_INSTANCE_H_
#define UCUDNN_TESTS_FUZZ_INSTANCE_H_

// Solver instances from arbitrary bytes: small numbers mostly, which collide
// and combine, and among them the extremes of what a number can be.

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/plan/plan.h"
#include "base/profile.h"
#include "solver/micro_batch/wr.h"

namespace ucudnn {

class FuzzBytes {
 public:
  explicit FuzzBytes(std::string_view bytes) : bytes_(bytes) {}

  bool empty() const { return bytes_.empty(); }

  // 0 after the end.
  std::int64_t Byte() {
    if (bytes_.empty()) return 0;
    const auto byte = static_cast<unsigned char>(bytes_.front());
    bytes_.remove_prefix(1);
    return byte;
  }

  // 0 to 239 as they are; the bytes above stand for powers of two up to 2^62,
  // for what lies beside them, and for negative numbers.
  std::int64_t Number() {
    const std::int64_t byte = Byte();
    if (byte < 240) return byte;
    const std::int64_t power = std::int64_t{1}
                               << std::min<std::int64_t>(Byte() % 64, 62);
    switch (byte % 4) {
      case 0:
        return power;
      case 1:
        return power - 1;
      case 2:
        return power + 1;
      default:
        return -power;
    }
  }

 private:
  std::string_view bytes_;
};

inline WrRequest FuzzRequest(FuzzBytes& bytes) {
  WrRequest request;
  // A curve has an entry for each image; thousands are enough to go wrong.
  request.batch = BatchSize(std::min<std::int64_t>(bytes.Number(), 5000));
  request.workspace_limit = Bytes(bytes.Number());
  constexpr BatchPolicy kPolicies[] = {
      BatchPolicy::kAll, BatchPolicy::kPowerOfTwo, BatchPolicy::kUndivided};
  request.policy = kPolicies[bytes.Byte() % 3];
  return request;
}

inline KernelProfile FuzzKernel(FuzzBytes& bytes, std::size_t number) {
  KernelProfile kernel;
  kernel.id.layer = "conv" + std::to_string(number);
  for (std::int64_t points = bytes.Byte() % 32; points > 0; --points) {
    MeasuredPoint point;
    point.batch = BatchSize(bytes.Number());
    point.algorithm.name = std::string(
        1, static_cast<char>('A' + static_cast<char>(bytes.Byte() % 4)));
    point.workspace = Bytes(bytes.Number());
    point.time = Nanoseconds(bytes.Number());
    const std::int64_t fields = bytes.Byte();
    if (fields % 4 == 0) point.spread = Nanoseconds(bytes.Number());
    if (fields / 4 % 4 == 0) point.adding = Nanoseconds(bytes.Number());
    kernel.points.push_back(std::move(point));
  }
  return kernel;
}

}  // namespace ucudnn

#endif  // UCUDNN_TESTS_FUZZ_INSTANCE_H_
