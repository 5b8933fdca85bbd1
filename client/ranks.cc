#include "client/ranks.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string_view>
#include <thread>
#include <utility>

namespace ucudnn {
namespace {

constexpr std::int64_t kMaxText = std::int64_t{1} << 30;

tl::unexpected<Error> MpiFailure(std::string_view call, int code) {
  std::string text(MPI_MAX_ERROR_STRING, '\0');
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  text.resize(static_cast<std::size_t>(length));
  return Fail(Code::kUnavailable, "{} failed: {}", call, text);
}

}  // namespace

// A collective in flight, with all that MPI reads or writes meanwhile.
struct Ranks::Pending {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Comm comm = MPI_COMM_NULL;  // what a duplication makes
  std::int64_t length = 0;
  std::string text;
  std::string all;
  std::vector<std::int64_t> lengths;
  std::vector<int> counts;
  std::vector<int> offsets;
  std::int64_t number = 0;
  std::int64_t greatest = 0;
  std::vector<std::byte> values;  // of one of the types
};

Status Ranks::Await(std::unique_ptr<Pending>& pending, Deadline deadline,
                    Patience patience) {
  // Short waits at first, for ranks that are nearly there; longer ones then,
  // to leave the cores to rank 0. MPI makes progress only while it is asked,
  // so a large reduction gets many short ones.
  auto pause = std::chrono::microseconds(1);
  int quick = patience == Patience::kShort ? 20'000 : 0;
  for (;;) {
    int done = 0;
    const int code = MPI_Test(&pending->request, &done, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS) {
      broken_ = true;
      static_cast<void>(pending.release());
      return MpiFailure("MPI_Test", code);
    }
    if (done != 0) return {};
    if (std::chrono::steady_clock::now() >= deadline) {
      broken_ = true;
      static_cast<void>(pending.release());
      return Fail(Code::kDeadlineExceeded,
                  "the ranks did not agree in time: one is lost, is late, or "
                  "did not make this collective call");
    }
    if (quick > 0) {
      --quick;
      std::this_thread::yield();
      continue;
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(1000));
  }
}

Status Ranks::Usable() const {
  if (!broken_ && comm_ == MPI_COMM_NULL) {
    return Fail(Code::kFailedPrecondition, "the session is finalised");
  }
  if (!broken_) return {};
  return Fail(Code::kUnavailable,
              "the ranks did not agree before and cannot any more");
}

Result<std::unique_ptr<Ranks>> Ranks::Duplicate(MPI_Comm comm,
                                                Deadline deadline) {
  int initialized = 0;
  int finalized = 0;
  MPI_Initialized(&initialized);
  if (initialized != 0) MPI_Finalized(&finalized);
  if (initialized == 0 || finalized != 0) {
    return Fail(Code::kFailedPrecondition,
                "MPI is {}; call MPI_Init first, and MPI_Finalize last",
                initialized == 0 ? "not initialised" : "finalised");
  }
  int inter = 0;
  if (comm == MPI_COMM_NULL ||
      MPI_Comm_test_inter(comm, &inter) != MPI_SUCCESS || inter != 0) {
    return Fail(
        Code::kInvalidArgument,
        "the communicator is {}; an intracommunicator is accepted",
        comm == MPI_COMM_NULL ? "MPI_COMM_NULL" : "an intercommunicator");
  }
  std::unique_ptr<Ranks> ranks(new Ranks);
  MPI_Comm_rank(comm, &ranks->rank_);
  MPI_Comm_size(comm, &ranks->size_);
  // The caller's handler may end the process.
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  MPI_Comm_get_errhandler(comm, &handler);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  auto pending = std::make_unique<Pending>();
  const int code = MPI_Comm_idup(comm, &pending->comm, &pending->request);
  Status made =
      code == MPI_SUCCESS ? ranks->Await(pending, deadline) : Status();
  if (handler != MPI_ERRHANDLER_NULL) {
    MPI_Comm_set_errhandler(comm, handler);
    MPI_Errhandler_free(&handler);
  }
  if (code != MPI_SUCCESS) return MpiFailure("MPI_Comm_idup", code);
  UCUDNN_RETURN_IF_ERROR(std::move(made));
  ranks->comm_ = pending->comm;
  // Whatever goes wrong from here on is ours to report, not to die of.
  MPI_Comm_set_errhandler(ranks->comm_, MPI_ERRORS_RETURN);
  return ranks;
}

void Ranks::Close() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized == 0 && !broken_ && comm_ != MPI_COMM_NULL) {
    MPI_Comm_free(&comm_);
  }
  comm_ = MPI_COMM_NULL;
}

Result<std::vector<std::string>> Ranks::AllGather(const std::string& mine,
                                                  Deadline deadline) {
  UCUDNN_RETURN_IF_ERROR(Usable());
  const auto size = static_cast<std::size_t>(size_);
  auto pending = std::make_unique<Pending>();
  pending->text = mine;
  pending->length = static_cast<std::int64_t>(mine.size());
  pending->lengths.resize(size);
  int code =
      MPI_Iallgather(&pending->length, 1, MPI_INT64_T, pending->lengths.data(),
                     1, MPI_INT64_T, comm_, &pending->request);
  if (code != MPI_SUCCESS) return MpiFailure("MPI_Iallgather", code);
  UCUDNN_RETURN_IF_ERROR(Await(pending, deadline));
  std::int64_t total = 0;
  for (const std::int64_t length : pending->lengths) {
    pending->counts.push_back(static_cast<int>(length));
    pending->offsets.push_back(static_cast<int>(total));
    total += length;
    // All ranks see the same lengths, so all of them stop here.
    if (length > kMaxText || total > kMaxText) {
      return Fail(Code::kResourceExhausted,
                  "the ranks have more than {} bytes to tell each other",
                  kMaxText);
    }
  }
  pending->all.resize(static_cast<std::size_t>(total));
  code = MPI_Iallgatherv(pending->text.data(), static_cast<int>(mine.size()),
                         MPI_CHAR, pending->all.data(), pending->counts.data(),
                         pending->offsets.data(), MPI_CHAR, comm_,
                         &pending->request);
  if (code != MPI_SUCCESS) return MpiFailure("MPI_Iallgatherv", code);
  UCUDNN_RETURN_IF_ERROR(Await(pending, deadline));
  std::vector<std::string> texts;
  texts.reserve(size);
  for (std::size_t i = 0; i < size; ++i) {
    texts.push_back(
        pending->all.substr(static_cast<std::size_t>(pending->offsets[i]),
                            static_cast<std::size_t>(pending->counts[i])));
  }
  return texts;
}

Result<Status> Ranks::AllOf(const Status& mine, Deadline deadline) {
  // Empty if all is well; else the code as one character, and the message.
  std::string text;
  if (!mine) {
    text = static_cast<char>(mine.error().code) + mine.error().message;
  }
  UCUDNN_ASSIGN_OR_RETURN(const auto texts, AllGather(text, deadline));
  for (std::size_t r = 0; r < texts.size(); ++r) {
    if (texts[r].empty()) continue;
    return Status(Fail(static_cast<Code>(texts[r][0]), "rank {}: {}", r,
                       texts[r].substr(1)));
  }
  return Status();
}

Status Ranks::Broadcast(std::string* text, Deadline deadline) {
  UCUDNN_RETURN_IF_ERROR(Usable());
  auto pending = std::make_unique<Pending>();
  if (rank_ == 0) {
    pending->text = *text;
    pending->length = static_cast<std::int64_t>(text->size());
  }
  int code =
      MPI_Ibcast(&pending->length, 1, MPI_INT64_T, 0, comm_, &pending->request);
  if (code != MPI_SUCCESS) return MpiFailure("MPI_Ibcast", code);
  UCUDNN_RETURN_IF_ERROR(Await(pending, deadline));
  if (pending->length > kMaxText) {
    return Fail(Code::kResourceExhausted,
                "rank 0 has {} bytes to tell; up to "
                "{} are accepted",
                pending->length, kMaxText);
  }
  pending->text.resize(static_cast<std::size_t>(pending->length));
  code = MPI_Ibcast(pending->text.data(), static_cast<int>(pending->length),
                    MPI_CHAR, 0, comm_, &pending->request);
  if (code != MPI_SUCCESS) return MpiFailure("MPI_Ibcast", code);
  UCUDNN_RETURN_IF_ERROR(Await(pending, deadline));
  *text = std::move(pending->text);
  return {};
}

Result<std::int64_t> Ranks::Max(std::int64_t mine, Deadline deadline) {
  UCUDNN_RETURN_IF_ERROR(Usable());
  auto pending = std::make_unique<Pending>();
  pending->number = mine;
  const int code =
      MPI_Iallreduce(&pending->number, &pending->greatest, 1, MPI_INT64_T,
                     MPI_MAX, comm_, &pending->request);
  if (code != MPI_SUCCESS) return MpiFailure("MPI_Iallreduce", code);
  UCUDNN_RETURN_IF_ERROR(Await(pending, deadline, Patience::kShort));
  return pending->greatest;
}

namespace {

template <class T>
constexpr MPI_Datatype TypeOf();
template <>
MPI_Datatype TypeOf<float>() {
  return MPI_FLOAT;
}
template <>
MPI_Datatype TypeOf<double>() {
  return MPI_DOUBLE;
}

}  // namespace

// MPI never holds the caller's memory, which may be gone after an error. Two
// pieces are under way at a time: one is scaled while the other is summed.
template <class T>
Status Ranks::ScaleAndSum(std::span<T> values, double scale,
                          Deadline deadline) {
  constexpr std::size_t kValues = (std::size_t{4} << 20) / sizeof(T);
  UCUDNN_RETURN_IF_ERROR(Usable());
  struct Flight {
    std::unique_ptr<Pending> pending;
    std::span<T> values;
  };
  const auto land = [&](Flight& flight) -> Status {
    if (flight.pending == nullptr) return {};
    UCUDNN_RETURN_IF_ERROR(Await(flight.pending, deadline, Patience::kShort));
    const T* sums = reinterpret_cast<const T*>(flight.pending->values.data());
    std::copy_n(sums, flight.values.size(), flight.values.data());
    return {};
  };
  const T factor = static_cast<T>(scale);
  Flight flights[2];
  for (std::size_t first = 0, turn = 0; first < values.size();
       first += kValues, turn ^= 1U) {
    Flight& flight = flights[turn];
    Status status = land(flight);
    if (status) {
      flight.values =
          values.subspan(first, std::min(kValues, values.size() - first));
      if (flight.pending == nullptr) {
        flight.pending = std::make_unique<Pending>();
        flight.pending->values.resize(flight.values.size() * sizeof(T));
      }
      T* scaled = reinterpret_cast<T*>(flight.pending->values.data());
      if (scale == 0) {
        std::fill_n(scaled, flight.values.size(), T(0));
      } else {
        std::transform(flight.values.begin(), flight.values.end(), scaled,
                       [factor](T value) { return value * factor; });
      }
      const int code = MPI_Iallreduce(
          MPI_IN_PLACE, scaled, static_cast<int>(flight.values.size()),
          TypeOf<T>(), MPI_SUM, comm_, &flight.pending->request);
      if (code == MPI_SUCCESS) continue;
      broken_ = true;
      status = MpiFailure("MPI_Iallreduce", code);
    }
    // The other piece is MPI's for good.
    static_cast<void>(flights[turn ^ 1U].pending.release());
    return status;
  }
  // In the order in which they were begun.
  const std::size_t pieces = (values.size() + kValues - 1) / kValues;
  for (const std::size_t turn : {pieces % 2, (pieces + 1) % 2}) {
    if (Status status = land(flights[turn]); !status) {
      static_cast<void>(flights[turn ^ 1U].pending.release());
      return status;
    }
  }
  return {};
}

template Status Ranks::ScaleAndSum(std::span<float>, double, Deadline);
template Status Ranks::ScaleAndSum(std::span<double>, double, Deadline);

Result<MPI_Comm> Ranks::Subset(bool in, Deadline deadline) {
  UCUDNN_ASSIGN_OR_RETURN(const std::int64_t left_out,
                          Max(in ? 0 : 1, deadline));
  MPI_Comm made = MPI_COMM_NULL;
  if (left_out == 0) {
    auto pending = std::make_unique<Pending>();
    const int code = MPI_Comm_idup(comm_, &pending->comm, &pending->request);
    if (code != MPI_SUCCESS) return MpiFailure("MPI_Comm_idup", code);
    UCUDNN_RETURN_IF_ERROR(Await(pending, deadline));
    made = pending->comm;
  } else {
    const int code =
        MPI_Comm_split(comm_, in ? 0 : MPI_UNDEFINED, rank_, &made);
    if (code != MPI_SUCCESS) return MpiFailure("MPI_Comm_split", code);
  }
  return made;
}

}  // namespace ucudnn
