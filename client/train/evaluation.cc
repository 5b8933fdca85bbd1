#include "client/train/evaluation.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "base/training/memory_plan.h"
#include "client/training/memory_run.h"

namespace ucudnn::train {
namespace {

constexpr BatchSize kEvaluatedAtOnce(16);

// The plan of the largest batch up to that of `whole`, which it becomes, that
// fits.
Result<MemoryPlan> PlanFew(Device& device, Operators& operators,
                           TrainingInput input, const TrainingRequest& request,
                           const std::stop_token& stop,
                           PreparedTraining* whole) {
  BatchSize& batch = whole->training.batch;
  for (;;) {
    input.batches = {batch};
    UCUDNN_RETURN_IF_ERROR(
        MeasureTraining(device, operators, input, stop, whole));
    Result<MemoryPlan> plan = PlanTraining(*whole, request, stop);
    if (plan || plan.error().code != Code::kFailedPrecondition ||
        batch == BatchSize(1)) {
      return plan;
    }
    batch = BatchSize(batch.count() / 2);
  }
}

}  // namespace

Result<Evaluation> EvaluateShare(Device& device, Operators& operators,
                                 const Job& job, const TrainOptions& options,
                                 const Part& part,
                                 const std::stop_token& stop) {
  TrainingInput input = job.input;
  input.split.reset();
  input.repeats = 1;
  UCUDNN_ASSIGN_OR_RETURN(const auto whole, ReadTraining(input));
  CopyWeights(job.network->training, job.network->parameters, whole->training,
              &whole->parameters);
  BatchSize& batch = whole->training.batch;
  batch = std::min(part.batch, kEvaluatedAtOnce);
  UCUDNN_ASSIGN_OR_RETURN(
      const MemoryPlan plan,
      PlanFew(device, operators, std::move(input),
              {.policy = "undivided", .budget = part.plan->budget}, stop,
              whole.get()));
  UCUDNN_ASSIGN_OR_RETURN(
      const auto executor,
      MemoryExecutor::Create(device, operators, whole->graph, whole->training,
                             plan, whole->parameters, {}));
  UCUDNN_ASSIGN_OR_RETURN(TrainingBatch images, executor->MakeBatch());
  // A batch that is not full is computed with what its other places hold.
  std::ranges::fill(images.images, 0.0F);
  std::ranges::fill(images.labels, 0);
  const Dataset& data = *job.held_out;
  const std::int64_t all = std::min(options.evaluate, data.size());
  const std::int64_t end =
      all * (part.first + part.batch).count() / options.batch.count();
  Evaluation sum;
  for (std::int64_t first = all * part.first.count() / options.batch.count();
       first < end; first += batch.count()) {
    const std::int64_t count = std::min(batch.count(), end - first);
    const auto labels = std::ssize(images.labels) / batch.count();
    for (std::int64_t i = 0; i < count; ++i) {
      data.Read(first + i, images.images.data() + i * data.extent().elements());
      std::fill_n(images.labels.begin() + i * labels, labels,
                  static_cast<std::int32_t>(data.Label(first + i)));
    }
    UCUDNN_ASSIGN_OR_RETURN(const Evaluation some,
                            executor->Evaluate(images, BatchSize(count)));
    sum.loss += some.loss;
    sum.labels += some.labels;
    sum.correct += some.correct;
  }
  return sum;
}

}  // namespace ucudnn::train
