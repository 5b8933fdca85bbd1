#include "device/cudnn/lister_pool.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "device/cudnn/graph/engine_check.h"

namespace ucudnn::cudnn {

void ListerPool::Open(std::size_t count) {
  while (listers_.size() < count) {
    auto context = GpuContext::Adopt(context_.driver(), context_.current(),
                                     context_.name());
    if (!context) return;
    auto handle = CudnnHandle::Create(api_, **context);
    if (!handle) return;
    listers_.push_back({*std::move(context), *std::move(handle)});
  }
}

std::vector<Result<std::vector<Candidate>>> ListerPool::List(
    CudnnHandle& handle, Families families, const ConvProblem& problem,
    std::span<const BatchSize> batches) {
  std::vector<Result<std::vector<Candidate>>> lists(
      batches.size(), Fail(Code::kInternal, "not listed"));
  if (batches.empty()) return lists;
  std::atomic<std::size_t> next = 0;
  const auto list_next = [&](CudnnHandle& with) {
    const std::size_t i = next++;
    if (i >= batches.size()) return false;
    // Whoever lists many batches measures few of them.
    lists[i] = ListConvolutions(with, families, problem, batches[i],
                                Listing::kForeseen);
    return true;
  };
  // The verdict on an engine does not depend on the batch, so the first list
  // finds most verdicts.
  list_next(handle);
  Open(std::min(static_cast<std::size_t>(std::max(threads_ - 1, 0)),
                batches.size() - 1));
  {
    std::vector<std::jthread> threads;
    for (Lister& lister : listers_) {
      lister.handle->engine_validation().Merge(handle.engine_validation());
      threads.emplace_back([&list_next, &lister] {
        while (list_next(*lister.handle)) {
        }
      });
    }
    while (list_next(handle)) {
    }
  }
  for (Lister& lister : listers_) {
    handle.engine_validation().Merge(lister.handle->engine_validation());
  }
  return lists;
}

}  // namespace ucudnn::cudnn
