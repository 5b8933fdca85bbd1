#ifndef UCUDNN_TESTS_CLIENT_GRADIENTS_FAKE_NCCL_H_
#define UCUDNN_TESTS_CLIENT_GRADIENTS_FAKE_NCCL_H_

// NCCL for GPUs whose memory is the host's. The ranks of a communicator meet in
// files that the unique id names, so ranks in several processes sum for real,
// and wait for a lost rank as NCCL's kernels do: for ever, unless aborted.

#include <functional>
#include <string>

#include "client/gradients/nccl_api.h"

namespace ucudnn::test {

struct FakeNccl {
  static FakeNccl& Get();
  static const NcclApi& Api();

  // Where the ranks meet.
  std::string folder;
  // Adds work to the fake GPU's stream, which repeats it until it returns true.
  std::function<void(std::function<bool()>)> enqueue;
  bool refuses = false;  // to make a communicator
  int fails_at = -1;     // which sum, counted from 0, fails after its start
  int dies_at = -1;      // at which sum the process ends
};

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_CLIENT_GRADIENTS_FAKE_NCCL_H_
