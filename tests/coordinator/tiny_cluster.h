#ifndef UCUDNN_TESTS_COORDINATOR_TINY_CLUSTER_H_
#define UCUDNN_TESTS_COORDINATOR_TINY_CLUSTER_H_

// Requests about devices of one kind and a network of one convolution.

#include <cstdint>
#include <span>
#include <string>

#include "base/network.h"
#include "base/onnx/network_file.h"
#include "ucudnn/v1/agent.pb.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn::test {

inline constexpr char kKind[] = "TEST/1u/1GiB/test-1.0";
inline constexpr char kNetwork[] =
    "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups\n"
    "conv1,3,8,8,8,3,3,1,1,1,1,1\n";

// A chain, which memory plans divide.
inline constexpr char kChain[] =
    "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups\n"
    "conv1,3,32,32,64,3,3,1,1,1,1,1\n"
    "conv2,64,32,32,64,3,3,1,1,1,1,1\n"
    "conv3,64,16,16,64,3,3,1,1,1,1,1\n";

inline v1::PutNetworkRequest PutTiny(const std::string& content = kNetwork) {
  v1::PutNetworkRequest put;
  put.set_name("tiny");
  put.set_content(content);
  return put;
}

// An agent with one idle device of kKind.
inline v1::RegisterRequest Agent(const std::string& id,
                                 const std::string& device_id) {
  v1::RegisterRequest agent;
  agent.set_agent_id(id);
  v1::Device& device = *agent.add_devices();
  device.set_id(device_id);
  device.set_kind(kKind);
  device.set_state("idle");
  v1::DeviceKind& kind = *device.mutable_kind_details();
  kind.set_model("TEST");
  kind.set_units(1);
  kind.set_memory_bytes((1_GiB).count());
  kind.set_library("test-1.0");
  return agent;
}

// All kernels of a network in FP32 at these batches, at so many microseconds
// for each image.
inline v1::Profile Measured(const std::string& kind, std::int64_t us,
                            std::span<const std::int64_t> batches,
                            const std::string& content = kNetwork) {
  const auto network = ParseNetwork(content, "tiny", BatchSize(1), "test");
  UCUDNN_CHECK(network.has_value());
  v1::Profile profile;
  profile.set_id(kind);
  for (const Kernel& kernel :
       KernelsOf(*network, Precision::kFp32, Layout::kNchw)) {
    v1::ProblemProfile& problem = *profile.add_problems();
    problem.set_problem(ToString(kernel.problem));
    for (const std::int64_t batch : batches) {
      v1::Measurement& point = *problem.add_measurements();
      point.set_batch(batch);
      point.set_algorithm("GEMM");
      point.set_math("FMA");
      point.set_precision("FP32");
      point.set_time_ns(batch * us * 1000);
      point.set_repeats(1);
      v1::CompleteBatch& complete = *problem.add_complete();
      complete.set_batch(batch);
      complete.set_max_workspace_bytes((1_GiB).count());
    }
  }
  return profile;
}

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_COORDINATOR_TINY_CLUSTER_H_
