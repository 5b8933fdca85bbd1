#include "client/gradient_sum.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace ucudnn {
namespace {

template <class T>
class HostGradients final : public Gradients<T> {
 public:
  HostGradients(std::span<T> values, double scale, Status ready)
      : values_(values), scale_(scale), ready_(std::move(ready)) {}

  std::size_t count() const override { return values_.size(); }
  Status Prepare() override {
    if (!ready_ || values_.empty()) return ready_;
    if (values_.data() == nullptr) {
      return Fail(Code::kInvalidArgument, "gradients is null");
    }
    const std::size_t size = std::min(values_.size(), kPieceBytes / sizeof(T));
    for (std::unique_ptr<T[]>& buffer : buffers_) {
      buffer.reset(new (std::nothrow) T[size]);
      if (buffer == nullptr) {
        return Fail(Code::kResourceExhausted,
                    "no memory for gradients under way");
      }
    }
    return {};
  }
  Result<T*> Take(unsigned turn, std::size_t first,
                  std::size_t count) override {
    T* const buffer = buffers_[turn].get();
    const std::span<const T> from = values_.subspan(first, count);
    if (scale_ == 0) {
      std::fill_n(buffer, count, T(0));
    } else {
      const T factor = static_cast<T>(scale_);
      std::transform(from.begin(), from.end(), buffer,
                     [factor](T value) { return value * factor; });
    }
    return buffer;
  }
  Status Give(unsigned turn, std::size_t first, std::size_t count) override {
    std::copy_n(buffers_[turn].get(), count, values_.data() + first);
    return {};
  }
  Status Finish() override { return {}; }
  void Abandon() override {
    for (std::unique_ptr<T[]>& buffer : buffers_) {
      static_cast<void>(buffer.release());
    }
  }
  // Copies in memory cost little, and the caller's is not given to MPI.
  bool direct() const override { return false; }
  Status SumDirectly(Ranks&, Ranks::Deadline) override {
    return Fail(Code::kInternal, "the host's memory is not summed directly");
  }

 private:
  const std::span<T> values_;
  const double scale_;
  const Status ready_;
  std::array<std::unique_ptr<T[]>, 2> buffers_;
};

// Two pieces are under way at a time: one is taken while the other is summed.
template <class T>
Status SumInPieces(Ranks& ranks, Gradients<T>& mine, Ranks::Deadline deadline) {
  constexpr std::size_t kPiece = kPieceBytes / sizeof(T);
  struct Flight {
    MPI_Request request = MPI_REQUEST_NULL;
    std::size_t first = 0;
    std::size_t count = 0;
  };
  std::array<Flight, 2> flights;
  const auto land = [&](unsigned turn) -> Status {
    Flight& flight = flights[turn];
    if (flight.count == 0) return {};
    UCUDNN_RETURN_IF_ERROR(ranks.Await(&flight.request, deadline));
    const std::size_t count = flight.count;
    flight.count = 0;
    return mine.Give(turn, flight.first, count);
  };
  const std::size_t total = mine.count();
  unsigned turn = 0;
  for (std::size_t first = 0; first < total; first += kPiece, turn ^= 1U) {
    UCUDNN_RETURN_IF_ERROR(land(turn));
    const std::size_t count = std::min(kPiece, total - first);
    UCUDNN_ASSIGN_OR_RETURN(T* const values, mine.Take(turn, first, count));
    UCUDNN_ASSIGN_OR_RETURN(flights[turn].request,
                            ranks.BeginSum(values, count));
    flights[turn].first = first;
    flights[turn].count = count;
  }
  // In the order in which they were begun.
  UCUDNN_RETURN_IF_ERROR(land(turn));
  UCUDNN_RETURN_IF_ERROR(land(turn ^ 1U));
  return mine.Finish();
}

}  // namespace

template <class T>
Status SumGradients(Ranks& ranks, Gradients<T>& mine,
                    Ranks::Deadline deadline) {
  const Status ready = mine.Prepare();
  const auto count = static_cast<std::int64_t>(mine.count());
  const std::int64_t size = sizeof(T);
  UCUDNN_ASSIGN_OR_RETURN(
      const std::vector<std::int64_t> most,
      ranks.MaxOfEach({ready ? 0 : 1, ready && mine.direct() ? 0 : 1, count,
                       -count, size, -size},
                      deadline));
  if (most[0] > 0) {
    UCUDNN_ASSIGN_OR_RETURN(const Status all, ranks.AllOf(ready, deadline));
    return all;
  }
  if (most[2] != -most[3]) {
    return Fail(Code::kInvalidArgument,
                "the ranks have {} to {} gradients; all must give as many",
                -most[3], most[2]);
  }
  if (most[4] != -most[5]) {
    return Fail(Code::kInvalidArgument,
                "some ranks have gradients of {} bytes, others of {}; all must "
                "have one type",
                -most[5], most[4]);
  }
  Status summed = most[1] == 0 ? mine.SumDirectly(ranks, deadline)
                               : SumInPieces(ranks, mine, deadline);
  if (!summed) {
    // The others wait for pieces that do not come.
    ranks.GiveUp();
    mine.Abandon();
  }
  return summed;
}

template <class T>
Status ScaleAndSum(Ranks& ranks, std::span<T> values, double scale,
                   Ranks::Deadline deadline, Status ready) {
  HostGradients<T> gradients(values, scale, std::move(ready));
  return SumGradients<T>(ranks, gradients, deadline);
}

template Status SumGradients(Ranks&, Gradients<float>&, Ranks::Deadline);
template Status SumGradients(Ranks&, Gradients<double>&, Ranks::Deadline);
template Status ScaleAndSum(Ranks&, std::span<float>, double, Ranks::Deadline,
                            Status);
template Status ScaleAndSum(Ranks&, std::span<double>, double, Ranks::Deadline,
                            Status);

}  // namespace ucudnn
