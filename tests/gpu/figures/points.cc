#include "tests/gpu/figures/points.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <stop_token>
#include <utility>

#include "device/forwarding_device.h"

namespace ucudnn::figures {

// A device that lists only some prepared algorithms for one problem and batch.
// It lists nothing for other batches, because bench_ would estimate from small
// batches what a single run has already shown.
class ScreenedDevice : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;

  Result<std::vector<Candidate>> ListAlgorithms(const ConvProblem&,
                                                BatchSize) override {
    std::vector<Candidate> candidates;
    for (const Offer& offer : offers_) candidates.push_back(offer.candidate);
    return candidates;
  }
  Result<std::unique_ptr<Convolution>> Prepare(
      const ConvProblem&, BatchSize batch,
      const Algorithm& algorithm) override {
    for (const Offer& offer : offers_) {
      if (batch == batch_ && offer.candidate.algorithm == algorithm) {
        return std::make_unique<Shared>(offer.convolution);
      }
    }
    return Fail(Code::kNotFound, "{} is not kept for {} images", algorithm.name,
                batch.count());
  }
  Result<EnqueuedTime> TimeEnqueued(
      const std::function<Status()>& work) override {
    return device_.TimeEnqueued(work);
  }

  void Keep(BatchSize batch, std::vector<Offer> offers) {
    batch_ = batch;
    offers_ = std::move(offers);
  }

 private:
  class Shared : public Convolution {
   public:
    explicit Shared(std::shared_ptr<Convolution> convolution)
        : convolution_(std::move(convolution)) {}
    Bytes workspace() const override { return convolution_->workspace(); }
    Status Run(const ConvArgs& args, void* workspace,
               Bytes workspace_size) override {
      return convolution_->Run(args, workspace, workspace_size);
    }

   private:
    std::shared_ptr<Convolution> convolution_;
  };

  BatchSize batch_;
  std::vector<Offer> offers_;
};

namespace {

using Clock = std::chrono::steady_clock;

BatchSize SmallestBatch(const ConvProblem& problem) {
  const ConvGeometry& g = problem.geometry;
  const Bytes image(std::max(g.input_elements(), g.output_elements()) *
                    ElementBytes(problem.precision));
  std::int64_t n = 1;
  while (n < 8 && image * n < 3_MiB) n *= 2;
  return BatchSize(n);
}

std::vector<BatchSize> BatchesOf(const ConvProblem& problem, BatchSize batch,
                                 std::int64_t step) {
  std::vector<BatchSize> batches;
  for (BatchSize n = SmallestBatch(problem); n < batch;
       n = BatchSize(n.count() * step)) {
    batches.push_back(n);
  }
  batches.push_back(batch);
  return batches;
}

Status Grow(Device& device, Bytes size, DeviceBuffer* buffer) {
  if (buffer->size() >= size) return {};
  buffer->Reset();
  UCUDNN_ASSIGN_OR_RETURN(*buffer, device.Allocate(size));
  // A moderate number in every precision.
  return device.Fill(buffer->data(), 0x3c, size);
}

}  // namespace

PointSource::PointSource(Device& device, Surveyors& surveyors,
                         const PointOptions& options)
    : device_(device),
      surveyors_(surveyors),
      options_(options),
      screened_(std::make_unique<ScreenedDevice>(device)),
      bench_(*screened_) {}

PointSource::~PointSource() = default;

void PointSource::Survey(const std::vector<Wanted>& wanted) {
  const auto begun = Clock::now();
  std::vector<Key> keys;
  std::vector<Surveyors::Wanted> tasks;
  for (const auto& [problem, batch] : wanted) {
    const Key key(problem, batch);
    if (known_.contains(key) || !surveyed_.try_emplace(key).second) continue;
    keys.push_back(key);
    tasks.push_back({problem, BatchesOf(problem, batch, options_.step)});
  }
  std::vector<Offers> found = surveyors_.Find(tasks, options_.max_workspace);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    surveyed_[keys[i]] = std::move(found[i]);
  }
  effort_.surveying += Clock::now() - begun;
}

Result<const std::vector<MeasuredPoint>*> PointSource::PointsOf(
    const ConvProblem& problem, BatchSize batch,
    const std::vector<Bytes>& limits) {
  const Key key(problem, batch);
  if (const auto known = known_.find(key); known != known_.end()) {
    return &known->second;
  }
  if (!surveyed_.contains(key)) Survey({{problem, batch}});
  const auto surveyed = surveyed_.extract(key);
  std::vector<MeasuredPoint>& points = known_[key];
  std::map<Algorithm, Trend> trends;
  std::vector<SizedRun> sized;
  for (const auto& [n, offers] : surveyed.mapped()) {
    if (!offers) return tl::unexpected<Error>(offers.error());
    UCUDNN_RETURN_IF_ERROR(
        MeasureBatch(problem, n, *offers, &trends, &sized, &points));
  }
  const auto begun = Clock::now();
  const Nanoseconds before = effort_.measuring;
  for (const Bytes limit : limits) {
    UCUDNN_RETURN_IF_ERROR(
        MeasureFitting(problem, batch, limit, sized, &points));
  }
  effort_.fitting += Clock::now() - begun - (effort_.measuring - before);
  screened_->Keep(BatchSize(), {});
  return &points;
}

Status PointSource::MeasureFitting(const ConvProblem& problem, BatchSize batch,
                                   Bytes limit,
                                   const std::vector<SizedRun>& runs,
                                   std::vector<MeasuredPoint>* points) {
  std::optional<double> best;  // of what fits, ns per image
  for (const MeasuredPoint& p : *points) {
    if (p.workspace > limit) continue;
    const double ns = static_cast<double>(p.time.count()) /
                      static_cast<double>(p.batch.count());
    best = std::min(best.value_or(ns), ns);
  }
  if (!best) return {};
  std::vector<Promise> promises = PromisesOf(runs, limit, *best);
  constexpr std::size_t kMost = 4;
  if (promises.size() > kMost) promises.resize(kMost);
  for (const Promise& promise : promises) {
    constexpr std::int64_t kStep = 8;
    for (std::int64_t n = promise.most.count() / kStep * kStep;
         n > promise.known.count(); n -= kStep) {
      UCUDNN_ASSIGN_OR_RETURN(
          const bool fits, MeasureIfItFits(problem, BatchSize(n),
                                           promise.algorithm, limit, points));
      if (fits) break;
    }
    for (const BatchSize part : EvenParts(batch, promise.most)) {
      if (part <= promise.known) break;
      UCUDNN_RETURN_IF_ERROR(
          MeasureIfItFits(problem, part, promise.algorithm, limit, points));
    }
  }
  return {};
}

Result<bool> PointSource::MeasureIfItFits(const ConvProblem& problem,
                                          BatchSize batch,
                                          const Algorithm& algorithm,
                                          Bytes limit,
                                          std::vector<MeasuredPoint>* points) {
  auto convolution = device_.Prepare(problem, batch, algorithm);
  if (!convolution && convolution.error().code == Code::kDataLoss) {
    return tl::unexpected<Error>(std::move(convolution).error());
  }
  if (!convolution) return false;  // not for this many images
  const Bytes workspace = (*convolution)->workspace();
  if (workspace > limit) return false;
  const bool known =
      std::any_of(points->begin(), points->end(), [&](const MeasuredPoint& p) {
        return p.batch == batch && p.algorithm == algorithm;
      });
  if (known) return true;
  UCUDNN_RETURN_IF_ERROR(Reserve(problem, batch));
  std::vector<Offer> one;
  one.push_back({{algorithm, workspace}, *std::move(convolution)});
  UCUDNN_RETURN_IF_ERROR(Measure(problem, batch, std::move(one), points));
  return true;
}

Status PointSource::Reserve(const ConvProblem& problem, BatchSize batch) {
  const ConvGeometry& g = problem.geometry;
  const Bytes image(std::max({g.input_elements(), g.output_elements(),
                              g.filter_elements() / batch.count() + 1}) *
                    ElementBytes(problem.precision));
  const Bytes size = image * batch.count();
  UCUDNN_RETURN_IF_ERROR(Grow(device_, size, &a_));
  UCUDNN_RETURN_IF_ERROR(Grow(device_, size, &b_));
  return Grow(device_, size, &out_);
}

Result<Nanoseconds> PointSource::RunOnce(const Offer& offer) {
  const Bytes workspace = offer.candidate.workspace;
  UCUDNN_RETURN_IF_ERROR(Grow(device_, workspace, &workspace_));
  const auto run = [&] {
    return offer.convolution->Run({a_.data(), b_.data(), out_.data()},
                                  workspace_.data(), workspace);
  };
  UCUDNN_ASSIGN_OR_RETURN(const Nanoseconds first, device_.Time(run));
  // The first run may load code, and host time, which distort short runs.
  constexpr Nanoseconds kLong = std::chrono::milliseconds(10);
  if (first > kLong) return first;
  UCUDNN_ASSIGN_OR_RETURN(const auto second, device_.TimeEnqueued(run));
  return std::min(first, second.device);
}

Status PointSource::MeasureBatch(const ConvProblem& problem, BatchSize batch,
                                 const std::vector<Offer>& offers,
                                 std::map<Algorithm, Trend>* trends,
                                 std::vector<SizedRun>* sized,
                                 std::vector<MeasuredPoint>* points) {
  const auto begun = Clock::now();
  ++effort_.tasks;
  effort_.offered += static_cast<int>(offers.size());
  UCUDNN_RETURN_IF_ERROR(Reserve(problem, batch));
  std::vector<Timed> runs;
  std::vector<const Offer*> ran;
  for (const Offer& offer : offers) {
    Trend& trend = (*trends)[offer.candidate.algorithm];
    const auto expected = trend.At(batch);
    const auto rival = BestRival(runs, offer.candidate);
    if (expected && rival && *expected > options_.hopeless * *rival) continue;
    const auto time = RunOnce(offer);
    ++effort_.run_once;
    if (!time) {
      ++effort_.failed;
      UCUDNN_RETURN_IF_ERROR(device_.Synchronize());
      continue;
    }
    const auto ns = static_cast<double>(time->count());
    trend.Add(batch, ns);
    runs.push_back({offer.candidate, ns});
    sized->push_back({batch, runs.back()});
    ran.push_back(&offer);
  }
  std::vector<Offer> kept;
  for (const std::size_t i :
       WorthMeasuring(runs, options_.near, options_.most_faster)) {
    kept.push_back(*ran[i]);
  }
  effort_.running += Clock::now() - begun;
  if (kept.empty()) return {};
  return Measure(problem, batch, std::move(kept), points);
}

Status PointSource::Measure(const ConvProblem& problem, BatchSize batch,
                            std::vector<Offer> offers,
                            std::vector<MeasuredPoint>* points) {
  const auto begun = Clock::now();
  MeasureOptions options;
  options.max_repeats = 4;
  options.group_time = std::chrono::milliseconds(2);
  // Longer runs, which are unlikely to matter, are measured once.
  options.time_limit = std::chrono::milliseconds(200);
  options.hopeless_factor = 1e6;  // screening has removed hopeless ones
  options.max_workspace = options_.max_workspace;
  const auto asked = static_cast<int>(offers.size());
  screened_->Keep(batch, std::move(offers));
  auto found = bench_.Measure(problem, batch, options, std::stop_token(), {});
  effort_.measuring += Clock::now() - begun;
  if (!found) {
    effort_.failed += asked;
    return device_.Synchronize();
  }
  effort_.measured += static_cast<int>(found->size());
  points->insert(points->end(), found->begin(), found->end());
  return {};
}

}  // namespace ucudnn::figures
