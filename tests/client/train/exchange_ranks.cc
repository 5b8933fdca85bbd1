// One rank of exchange_test's jobs: a step whose last rank fails.
//
//   exchange_ranks FOLDER passes|sums|end
//
// The second argument says where it fails: before gradients are summed, between
// two sums, or after them. Writes what the step's end told this rank.

#include <mpi.h>

#include <array>
#include <fstream>
#include <span>
#include <string>

#include "client/gradients/gradient_sum.h"
#include "client/train/exchange.h"
#include "device/onednn/onednn_device.h"

namespace ucudnn::train {
namespace {

Error Lost() { return Error{Code::kInternal, "the device is lost"}; }

class LostEvent final : public Event {
 public:
  Status Set() override { return {}; }
  Result<bool> Reached() override { return tl::unexpected<Error>(Lost()); }
  Result<Nanoseconds> Since(const Event& /*start*/) const override {
    return tl::unexpected<Error>(Lost());
  }
};

Status Step(JobExchange& exchange, Event& ready, const std::string& fails) {
  if (fails == "passes") return tl::unexpected<Error>(Lost());
  LostEvent lost;
  std::array<float, 4> gradients = {1, 2, 3, 4};
  std::array<ReadyBucket, 2> buckets;
  for (ReadyBucket& bucket : buckets) {
    bucket = {{&ready}, {std::span<float>(gradients)}};
  }
  if (fails == "sums") buckets[1].ready[0] = &lost;
  UCUDNN_RETURN_IF_ERROR(exchange.SumGradients(buckets));
  if (fails == "end") return tl::unexpected<Error>(Lost());
  return {};
}

int Main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const auto ranks = Ranks::Duplicate(MPI_COMM_WORLD, Soon()).value();
  const auto device = OpenOneDnnDevice({.threads = 1}).value();
  const auto ready = device->MakeEvent().value();
  Status told = ready->Set();
  JobExchange exchange(*ranks, *device, Turns(), /*on_host=*/true);
  if (told) told = exchange.Begin();
  if (told) {
    const bool last = ranks->rank() == ranks->size() - 1;
    told = Step(exchange, *ready, last ? argv[2] : "nothing");
    if (!told) told = exchange.Refuse(told.error());
    const auto ended = ScaleAndSum<float>(*ranks, {}, 1.0, Soon(), told);
    told = ended ? Status() : tl::unexpected<Error>(ended.error());
  }
  std::ofstream(fmt::format("{}/rank{}", argv[1], ranks->rank()))
      << (told ? "nothing" : told.error().message);
  ranks->Close();
  MPI_Finalize();
  return 0;
}

}  // namespace
}  // namespace ucudnn::train

int main(int argc, char** argv) { return ucudnn::train::Main(argc, argv); }
