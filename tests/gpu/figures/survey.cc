#include "tests/gpu/figures/survey.h"

#include <atomic>
#include <thread>

#include "device/cudnn/graph/engine_check.h"
#include "device/cudnn/handle.h"

namespace ucudnn::figures {
namespace {

Result<std::vector<Offer>> FindOn(Device& device, const ConvProblem& problem,
                                  BatchSize batch, Bytes max_workspace) {
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<Candidate> listed,
                          device.ListAlgorithms(problem, batch));
  std::vector<Offer> offers;
  for (const Candidate& candidate : listed) {
    if (candidate.workspace > max_workspace) continue;
    auto convolution = device.Prepare(problem, batch, candidate.algorithm);
    if (convolution) offers.push_back({candidate, *std::move(convolution)});
  }
  return offers;
}

}  // namespace

Result<std::unique_ptr<Surveyors>> Surveyors::Open(Device& device,
                                                   const CudnnOptions& options,
                                                   int threads) {
  CudnnOptions several = options;
  several.ordinals.assign(static_cast<std::size_t>(threads),
                          options.ordinals.at(0));
  UCUDNN_ASSIGN_OR_RETURN(auto devices, OpenCudnnDevices(several));
  UCUDNN_ASSIGN_OR_RETURN(const CUstream stream,
                          cudnn::HandleOf(device)->stream());
  for (const auto& other : devices) {
    cudnn::CudnnHandle& handle = *cudnn::HandleOf(*other);
    UCUDNN_ASSIGN_OR_RETURN(const auto scope, handle.Enter());
    UCUDNN_RETURN_IF_ERROR(handle.Check(
        handle.api().SetStream(handle.get(), stream), "cudnnSetStream"));
  }
  auto surveyors = std::make_unique<Surveyors>(device);
  surveyors->devices_ = std::move(devices);
  return surveyors;
}

std::vector<Offers> Surveyors::Find(const std::vector<Wanted>& wanted,
                                    Bytes max_workspace) {
  std::vector<Offers> found(wanted.size());
  std::atomic<std::size_t> next = 0;
  const auto work = [&](Device& device) {
    for (std::size_t i = next++; i < wanted.size(); i = next++) {
      for (const BatchSize batch : wanted[i].batches) {
        found[i].emplace(
            batch, FindOn(device, wanted[i].problem, batch, max_workspace));
      }
    }
  };
  if (devices_.empty()) work(device_);
  std::vector<std::jthread> threads;
  for (const auto& device : devices_) {
    threads.emplace_back([&work, &device] { work(*device); });
  }
  threads.clear();  // joins them
  for (const auto& device : devices_) {
    cudnn::HandleOf(device_)->engine_validation().Merge(
        cudnn::HandleOf(*device)->engine_validation());
  }
  return found;
}

}  // namespace ucudnn::figures
