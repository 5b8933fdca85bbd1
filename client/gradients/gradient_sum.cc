#include "client/gradients/gradient_sum.h"

#include <algorithm>
#include <array>
#include <atomic>
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
  double scale() const override { return scale_; }
  Status Prepare(const SharedMemory* window) override {
    shares_ = window != nullptr;
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
  Result<T*> StageScaled(unsigned turn, std::size_t first,
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
  Status CopyOut(T* to, std::size_t first, std::size_t count) override {
    std::copy_n(values_.data() + first, count, to);
    return {};
  }
  Status CopyIn(const T* from, std::size_t first, std::size_t count) override {
    std::copy_n(from, count, values_.data() + first);
    return {};
  }
  Status Wait() override { return {}; }
  void Abandon() override {
    for (std::unique_ptr<T[]>& buffer : buffers_) {
      static_cast<void>(buffer.release());
    }
  }
  bool shares() const override { return shares_; }

 private:
  const std::span<T> values_;
  const double scale_;
  const Status ready_;
  bool shares_ = false;
  std::array<std::unique_ptr<T[]>, 2> buffers_;
};

// The shared memory: for each rank, a page with its scale, and two pieces.
template <class T>
class Window {
 public:
  static constexpr std::size_t kPage = 4096;
  static constexpr std::size_t kBytes = kPage + 2 * kSharedPieceBytes;

  explicit Window(std::byte* data) : data_(data) {}
  double* scale(int rank) const { return reinterpret_cast<double*>(of(rank)); }
  T* piece(int rank, unsigned turn) const {
    return reinterpret_cast<T*>(of(rank) + kPage + turn * kSharedPieceBytes);
  }

 private:
  std::byte* of(int rank) const {
    return data_ + static_cast<std::size_t>(rank) * kBytes;
  }
  std::byte* const data_;
};

// Sums all ranks' values of this rank's part, in rank order, into its own.
template <class T>
void AddUp(const Ranks& ranks, const Window<T>& window, unsigned turn,
           const Part& part) {
  constexpr std::size_t kBlock = 2048;  // fits into the L1 cache
  std::array<T, kBlock> sum;
  T* const out = window.piece(ranks.rank(), turn) + part.first;
  for (std::size_t first = 0; first < part.count; first += kBlock) {
    const std::size_t count = std::min(kBlock, part.count - first);
    bool any = false;
    for (int rank = 0; rank < ranks.size(); ++rank) {
      if (*window.scale(rank) == 0) continue;
      const T factor = static_cast<T>(*window.scale(rank));
      const T* const in = window.piece(rank, turn) + part.first + first;
      if (any) {
        for (std::size_t i = 0; i < count; ++i) sum[i] += factor * in[i];
      } else {
        for (std::size_t i = 0; i < count; ++i) sum[i] = factor * in[i];
      }
      any = true;
    }
    if (!any) std::fill_n(sum.begin(), count, T(0));
    std::copy_n(sum.begin(), count, out + first);
  }
}

// A barrier after which all ranks see what was written to the window before.
Status Synchronize(Ranks& ranks, Ranks::Deadline deadline) {
  std::atomic_thread_fence(std::memory_order_release);
  UCUDNN_RETURN_IF_ERROR(ranks.Barrier(deadline));
  std::atomic_thread_fence(std::memory_order_acquire);
  return {};
}

// Each piece is copied out while the previous one is being summed.
template <class T>
Status SumInWindow(Ranks& ranks, const Window<T>& window, Gradients<T>& mine,
                   Ranks::Deadline deadline) {
  constexpr std::size_t kPiece = kSharedPieceBytes / sizeof(T);
  const int rank = ranks.rank();
  const std::size_t total = mine.count();
  *window.scale(rank) = mine.scale();
  const auto copy_out = [&](std::size_t first, unsigned turn) -> Status {
    if (mine.scale() == 0 || first >= total) return {};
    return mine.CopyOut(window.piece(rank, turn), first,
                        std::min(kPiece, total - first));
  };
  UCUDNN_RETURN_IF_ERROR(copy_out(0, 0));
  unsigned turn = 0;
  for (std::size_t first = 0; first < total; first += kPiece, turn ^= 1U) {
    const std::size_t count = std::min(kPiece, total - first);
    // All ranks have copied this piece out and the previous sums in, so the
    // next piece may overwrite those.
    UCUDNN_RETURN_IF_ERROR(mine.Wait());
    UCUDNN_RETURN_IF_ERROR(Synchronize(ranks, deadline));
    UCUDNN_RETURN_IF_ERROR(copy_out(first + kPiece, turn ^ 1U));
    AddUp(ranks, window, turn, PartOf(count, ranks.size(), rank));
    UCUDNN_RETURN_IF_ERROR(Synchronize(ranks, deadline));
    for (int r = 0; r < ranks.size(); ++r) {
      const Part part = PartOf(count, ranks.size(), r);
      if (part.count == 0) continue;
      UCUDNN_RETURN_IF_ERROR(mine.CopyIn(window.piece(r, turn) + part.first,
                                         first + part.first, part.count));
    }
  }
  return mine.Wait();
}

// Two pieces are in flight: one is staged while the other is summed.
template <class T>
Status SumInPieces(Ranks& ranks, Gradients<T>& mine, Ranks::Deadline deadline) {
  constexpr std::size_t kPiece = kPieceBytes / sizeof(T);
  struct Flight {
    MPI_Request request = MPI_REQUEST_NULL;
    T* values = nullptr;
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
    return mine.CopyIn(flight.values, flight.first, count);
  };
  const std::size_t total = mine.count();
  unsigned turn = 0;
  for (std::size_t first = 0; first < total; first += kPiece, turn ^= 1U) {
    UCUDNN_RETURN_IF_ERROR(land(turn));
    const std::size_t count = std::min(kPiece, total - first);
    UCUDNN_ASSIGN_OR_RETURN(T* const values,
                            mine.StageScaled(turn, first, count));
    UCUDNN_ASSIGN_OR_RETURN(flights[turn].request,
                            ranks.BeginSum(values, count));
    flights[turn].values = values;
    flights[turn].first = first;
    flights[turn].count = count;
  }
  // In the order in which they were started.
  UCUDNN_RETURN_IF_ERROR(land(turn));
  UCUDNN_RETURN_IF_ERROR(land(turn ^ 1U));
  return mine.Wait();
}

// For less, one MPI reduction costs less than two barriers.
constexpr std::size_t kLeastShared = std::size_t{64} << 10;

// What all ranks are able to do.
struct Agreed {
  bool all_share = false;
  bool all_on_gpus = false;
};

// Whether the ranks can sum at all, and how. The errors of SumGradients.
template <class T>
Result<Agreed> Agree(Ranks& ranks, const Gradients<T>& mine,
                     const Status& ready, Ranks::Deadline deadline) {
  const auto count = static_cast<std::int64_t>(mine.count());
  const std::int64_t size = sizeof(T);
  UCUDNN_ASSIGN_OR_RETURN(
      const std::vector<std::int64_t> most,
      ranks.MaxOfEach({ready ? 0 : 1, count, -count, size, -size,
                       ready && mine.shares() ? 0 : 1,
                       ready && mine.may_sum_on_gpus() ? 0 : 1},
                      deadline));
  if (most[0] > 0) {
    UCUDNN_ASSIGN_OR_RETURN(const Status all, ranks.AllOf(ready, deadline));
    UCUDNN_RETURN_IF_ERROR(all);
  }
  if (most[1] != -most[2]) {
    return Fail(
        Code::kInvalidArgument,
        "ranks have from {} to {} gradients; all must have the same number",
        -most[2], most[1]);
  }
  if (most[3] != -most[4]) {
    return Fail(Code::kInvalidArgument,
                "some ranks have gradients of {} bytes, others of {}; all must "
                "have the same type",
                -most[4], most[3]);
  }
  return Agreed{.all_share = most[5] == 0, .all_on_gpus = most[6] == 0};
}

// By the first method that all ranks can use.
template <class T>
Result<SumMethod> SumBy(const Agreed& agreed, Ranks& ranks,
                        SharedMemory* window, Gradients<T>& mine,
                        Ranks::Deadline deadline) {
  if (agreed.all_on_gpus) {
    UCUDNN_ASSIGN_OR_RETURN(const bool summed, mine.SumOnGpus(ranks));
    if (summed) return SumMethod::kNccl;
  }
  if (agreed.all_share && mine.count() * sizeof(T) >= kLeastShared) {
    UCUDNN_RETURN_IF_ERROR(
        SumInWindow(ranks, Window<T>(window->data()), mine, deadline));
    return SumMethod::kSharedMemory;
  }
  UCUDNN_RETURN_IF_ERROR(SumInPieces(ranks, mine, deadline));
  return SumMethod::kMpi;
}

}  // namespace

template <class T>
Result<SumMethod> SumGradients(Ranks& ranks, Gradients<T>& mine,
                               Ranks::Deadline deadline) {
  UCUDNN_ASSIGN_OR_RETURN(SharedMemory* const window,
                          ranks.Window(Window<T>::kBytes, deadline));
  const Status ready = mine.Prepare(window);
  UCUDNN_ASSIGN_OR_RETURN(const Agreed agreed,
                          Agree(ranks, mine, ready, deadline));
  Result<SumMethod> method = SumBy(agreed, ranks, window, mine, deadline);
  if (!method) {
    // The others wait for pieces that will not come.
    ranks.GiveUp();
    mine.Abandon();
  }
  return method;
}

template <class T>
Result<SumMethod> ScaleAndSum(Ranks& ranks, std::span<T> values, double scale,
                              Ranks::Deadline deadline, Status ready) {
  HostGradients<T> gradients(values, scale, std::move(ready));
  return SumGradients<T>(ranks, gradients, deadline);
}

template Result<SumMethod> SumGradients(Ranks&, Gradients<float>&,
                                        Ranks::Deadline);
template Result<SumMethod> SumGradients(Ranks&, Gradients<double>&,
                                        Ranks::Deadline);
template Result<SumMethod> ScaleAndSum(Ranks&, std::span<float>, double,
                                       Ranks::Deadline, Status);
template Result<SumMethod> ScaleAndSum(Ranks&, std::span<double>, double,
                                       Ranks::Deadline, Status);

}  // namespace ucudnn
