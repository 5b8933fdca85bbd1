#include "client/ranks/ranks.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <future>
#include <limits>
#include <thread>
#include <utility>

#include "base/units.h"

namespace ucudnn {
namespace {

constexpr std::int64_t kMaxText = std::int64_t{1} << 30;

// In memory that the ranks of a node share.
struct Progress {
  std::int64_t process = 0;
  std::int64_t calls = 0;  // begun; by std::atomic_ref
};

Progress& ProgressIn(const SharedMemory& memory) {
  return *reinterpret_cast<Progress*>(memory.data());
}

std::int64_t CallsIn(const SharedMemory& memory) {
  return std::atomic_ref(ProgressIn(memory).calls)
      .load(std::memory_order_relaxed);
}

tl::unexpected<Error> MpiFailure(std::string_view call, int code) {
  std::string text(MPI_MAX_ERROR_STRING, '\0');
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  text.resize(static_cast<std::size_t>(length));
  return Fail(Code::kUnavailable, "{} failed: {}", call, text);
}

}  // namespace

Status CheckLaunch(const Environment& environment, int world) {
  const auto number = [&](const char* variable) -> std::int64_t {
    const auto read = ParseInteger(environment(variable).value_or(""), 0,
                                   std::numeric_limits<std::int32_t>::max());
    return read ? *read : 0;
  };
  // Of `srun`; an allocation's SLURM_NTASKS also counts tasks that are never
  // started. Launchers of MPI say so if one rank is meant.
  const std::int64_t tasks = number("SLURM_STEP_NUM_TASKS");
  if (world > 1 || tasks < 2 || number("OMPI_COMM_WORLD_SIZE") == 1 ||
      number("PMI_SIZE") == 1) {
    return {};
  }
  return Fail(Code::kFailedPrecondition,
              "Slurm started {} tasks (SLURM_STEP_NUM_TASKS), but they do not "
              "know each other: MPI sees 1 rank in each; start them with `srun "
              "--mpi=pmix`, which the MPI must have been built for, or with "
              "mpirun. If each is a job of its own, unset SLURM_STEP_NUM_TASKS",
              tasks);
}

// A collective in flight, with all buffers that MPI uses meanwhile.
struct Ranks::Pending {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Comm comm = MPI_COMM_NULL;  // the result of a duplication
  std::int64_t length = 0;
  std::string text;
  std::string all;
  std::vector<std::int64_t> lengths;
  std::vector<int> counts;
  std::vector<int> offsets;
  std::vector<std::int64_t> numbers;
};

Status Ranks::Await(std::unique_ptr<Pending>& pending, Deadline deadline,
                    Patience patience) {
  Status done = AwaitRequest(&pending->request, deadline, patience);
  if (!done) static_cast<void>(pending.release());
  return done;
}

Status Ranks::Await(MPI_Request* request, Deadline deadline) {
  return AwaitRequest(request, deadline, Patience::kShort);
}

Status Ranks::AwaitRequest(MPI_Request* request, Deadline deadline,
                           Patience patience) {
  // Short waits at first, for ranks that are nearly there, then longer ones, to
  // leave the cores to rank 0. MPI makes progress only inside its calls, so a
  // large reduction polls many times quickly.
  auto pause = std::chrono::microseconds(1);
  int quick = patience == Patience::kShort ? 20'000 : 0;
  for (;;) {
    int done = 0;
    const int code = MPI_Test(request, &done, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS) {
      broken_ = true;
      return MpiFailure("MPI_Test", code);
    }
    if (done != 0) return {};
    if (std::chrono::steady_clock::now() >= deadline) {
      broken_ = true;
      const std::string missing = Missing();
      return Fail(Code::kDeadlineExceeded,
                  "the ranks did not agree in time: {}",
                  missing.empty() ? "one is lost, is late, or did not make "
                                    "this collective call"
                                  : missing);
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

Status Ranks::Begun(std::string_view call, int code) {
  if (code != MPI_SUCCESS) {
    broken_ = true;
    return MpiFailure(call, code);
  }
  if (!progress_.empty()) {
    std::atomic_ref(
        ProgressIn(*progress_[static_cast<std::size_t>(rank_)]).calls)
        .fetch_add(1, std::memory_order_relaxed);
  }
  return {};
}

Status Ranks::ShareProgress(Deadline deadline) {
  const std::string place = SharedMemory::Place();
  std::unique_ptr<SharedMemory> mine;
  if (!place.empty()) {
    if (auto made = SharedMemory::Create(sizeof(Progress))) {
      mine = *std::move(made);
      ProgressIn(*mine).process = getpid();
    }
  }
  UCUDNN_ASSIGN_OR_RETURN(
      const std::vector<std::string> paths,
      AllGather(mine == nullptr ? "" : place + "\n" + mine->path(), deadline));
  if (mine == nullptr) return {};
  progress_.resize(paths.size());
  for (std::size_t r = 0; r < paths.size(); ++r) {
    if (!paths[r].starts_with(place + "\n")) continue;
    if (auto opened = SharedMemory::Open(paths[r].substr(place.size() + 1),
                                         sizeof(Progress))) {
      progress_[r] = *std::move(opened);
    }
  }
  progress_[static_cast<std::size_t>(rank_)] = std::move(mine);
  return {};
}

std::string Ranks::Missing() const {
  if (progress_.empty()) return {};
  const std::int64_t calls =
      CallsIn(*progress_[static_cast<std::size_t>(rank_)]);
  std::vector<std::string> missing;
  for (std::size_t r = 0; r < progress_.size(); ++r) {
    if (progress_[r] == nullptr) continue;
    const auto process = static_cast<pid_t>(ProgressIn(*progress_[r]).process);
    if (kill(process, 0) != 0 && errno == ESRCH) {
      missing.push_back(fmt::format("rank {} has ended", r));
    } else if (CallsIn(*progress_[r]) < calls) {
      missing.push_back(
          fmt::format("rank {} has not made this collective call", r));
    }
  }
  return fmt::format("{}", fmt::join(missing, ", "));
}

Status Ranks::Usable() const {
  if (!broken_ && comm_ == MPI_COMM_NULL) {
    return Fail(Code::kFailedPrecondition, "the session is finalised");
  }
  if (!broken_) return {};
  return Fail(
      Code::kUnavailable,
      "an earlier collective call failed; the ranks cannot agree any more");
}

Result<std::unique_ptr<Ranks>> Ranks::Duplicate(MPI_Comm comm,
                                                Deadline deadline) {
  int initialized = 0;
  int finalized = 0;
  MPI_Initialized(&initialized);
  if (initialized != 0) MPI_Finalized(&finalized);
  if (initialized == 0 || finalized != 0) {
    return Fail(Code::kFailedPrecondition,
                "MPI is {}; call MPI_Init before and MPI_Finalize after",
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
  if (comm != MPI_COMM_SELF) {
    int world = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &world);
    UCUDNN_RETURN_IF_ERROR(CheckLaunch(ProcessEnvironment(), world));
  }
  std::unique_ptr<Ranks> ranks(new Ranks);
  MPI_Comm_rank(comm, &ranks->rank_);
  MPI_Comm_size(comm, &ranks->size_);
  // The caller's error handler may abort the process.
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
  // From here on, report errors instead of aborting.
  MPI_Comm_set_errhandler(ranks->comm_, MPI_ERRORS_RETURN);
  UCUDNN_RETURN_IF_ERROR(ranks->ShareProgress(deadline));
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
  UCUDNN_RETURN_IF_ERROR(Begun("MPI_Iallgather", code));
  UCUDNN_RETURN_IF_ERROR(Await(pending, deadline));
  std::int64_t total = 0;
  for (const std::int64_t length : pending->lengths) {
    pending->counts.push_back(static_cast<int>(length));
    pending->offsets.push_back(static_cast<int>(total));
    total += length;
    // All ranks see the same lengths, so all of them return here.
    if (length > kMaxText || total > kMaxText) {
      return Fail(Code::kResourceExhausted,
                  "the ranks' texts have more than {} bytes together",
                  kMaxText);
    }
  }
  pending->all.resize(static_cast<std::size_t>(total));
  code = MPI_Iallgatherv(pending->text.data(), static_cast<int>(mine.size()),
                         MPI_CHAR, pending->all.data(), pending->counts.data(),
                         pending->offsets.data(), MPI_CHAR, comm_,
                         &pending->request);
  UCUDNN_RETURN_IF_ERROR(Begun("MPI_Iallgatherv", code));
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
  // Empty if OK; else the code as one character, followed by the message.
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
  UCUDNN_RETURN_IF_ERROR(Begun("MPI_Ibcast", code));
  UCUDNN_RETURN_IF_ERROR(Await(pending, deadline));
  if (pending->length > kMaxText) {
    return Fail(Code::kResourceExhausted,
                "rank 0's text has {} bytes; up to {} are accepted",
                pending->length, kMaxText);
  }
  pending->text.resize(static_cast<std::size_t>(pending->length));
  code = MPI_Ibcast(pending->text.data(), static_cast<int>(pending->length),
                    MPI_CHAR, 0, comm_, &pending->request);
  UCUDNN_RETURN_IF_ERROR(Begun("MPI_Ibcast", code));
  UCUDNN_RETURN_IF_ERROR(Await(pending, deadline));
  *text = std::move(pending->text);
  return {};
}

Result<std::int64_t> Ranks::Max(std::int64_t mine, Deadline deadline) {
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<std::int64_t> most,
                          MaxOfEach({mine}, deadline));
  return most.front();
}

Result<std::vector<std::int64_t>> Ranks::MaxOfEach(
    std::vector<std::int64_t> mine, Deadline deadline) {
  UCUDNN_RETURN_IF_ERROR(Usable());
  auto pending = std::make_unique<Pending>();
  pending->numbers = std::move(mine);
  const int code =
      MPI_Iallreduce(MPI_IN_PLACE, pending->numbers.data(),
                     static_cast<int>(pending->numbers.size()), MPI_INT64_T,
                     MPI_MAX, comm_, &pending->request);
  UCUDNN_RETURN_IF_ERROR(Begun("MPI_Iallreduce", code));
  UCUDNN_RETURN_IF_ERROR(Await(pending, deadline, Patience::kShort));
  return std::move(pending->numbers);
}

Status Ranks::Barrier(Deadline deadline) {
  UCUDNN_RETURN_IF_ERROR(Usable());
  MPI_Request request = MPI_REQUEST_NULL;
  UCUDNN_RETURN_IF_ERROR(Begun("MPI_Ibarrier", MPI_Ibarrier(comm_, &request)));
  return Await(&request, deadline);
}

Result<SharedMemory*> Ranks::Window(std::size_t bytes, Deadline deadline) {
  UCUDNN_RETURN_IF_ERROR(Usable());
  if (window_) return window_->get();
  const std::size_t size = bytes * static_cast<std::size_t>(size_);
  std::unique_ptr<SharedMemory> window;
  const std::string place = SharedMemory::Place();
  std::string path;
  if (rank_ == 0 && !place.empty()) {
    if (auto made = SharedMemory::Create(size)) {
      window = *std::move(made);
      path = window->path();
    }
  }
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<std::string> paths,
                          AllGather(place + "\n" + path, deadline));
  const std::string first = paths[0].substr(0, paths[0].find('\n') + 1);
  const bool near =
      first.size() > 1 && paths[0].size() > first.size() &&
      std::all_of(paths.begin(), paths.end(), [&](const std::string& text) {
        return text.starts_with(first);
      });
  if (near && rank_ != 0) {
    if (auto opened = SharedMemory::Open(paths[0].substr(first.size()), size)) {
      window = *std::move(opened);
    }
  }
  UCUDNN_ASSIGN_OR_RETURN(const std::int64_t without,
                          Max(near && window != nullptr ? 0 : 1, deadline));
  if (without > 0) window.reset();
  if (window != nullptr) window->Seal();
  window_ = std::move(window);
  return window_->get();
}

void Ranks::ForgoWindow() { window_.emplace(); }

void Ranks::GiveUp() {
  broken_ = true;
  // Leaks the mapping.
  if (window_) static_cast<void>(window_->release());
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

template <class T>
Result<MPI_Request> Ranks::BeginSum(T* values, std::size_t count) {
  UCUDNN_RETURN_IF_ERROR(Usable());
  MPI_Request request = MPI_REQUEST_NULL;
  const int code = MPI_Iallreduce(MPI_IN_PLACE, values, static_cast<int>(count),
                                  TypeOf<T>(), MPI_SUM, comm_, &request);
  UCUDNN_RETURN_IF_ERROR(Begun("MPI_Iallreduce", code));
  return request;
}

namespace {
constexpr int kAlarmTag = 1;
}  // namespace

void Ranks::Alarm() {
  if (broken_) return;
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    // Without values it is sent at once, whether or not it is received.
    MPI_Request request = MPI_REQUEST_NULL;
    if (MPI_Isend(nullptr, 0, MPI_BYTE, rank, kAlarmTag, comm_, &request) ==
        MPI_SUCCESS) {
      (void)MPI_Request_free(&request);
    }
  }
}

bool Ranks::Alarmed() {
  int found = 0;
  return !broken_ &&
         MPI_Iprobe(MPI_ANY_SOURCE, kAlarmTag, comm_, &found,
                    MPI_STATUS_IGNORE) == MPI_SUCCESS &&
         found != 0;
}

template Result<MPI_Request> Ranks::BeginSum(float*, std::size_t);
template Result<MPI_Request> Ranks::BeginSum(double*, std::size_t);

namespace {

// Makes the blocking MPI call that creates a communicator.
struct Creation {
  MPI_Comm parent = MPI_COMM_NULL;
  MPI_Group group = MPI_GROUP_NULL;
  MPI_Comm made = MPI_COMM_NULL;
  std::promise<int> code;

  void Run() { code.set_value(MPI_Comm_create_group(parent, group, 0, &made)); }
};

}  // namespace

Result<MPI_Comm> Ranks::Subset(bool in, Deadline deadline) {
  std::vector<std::int64_t> chosen(static_cast<std::size_t>(size_));
  chosen[static_cast<std::size_t>(rank_)] = in ? 1 : 0;
  UCUDNN_ASSIGN_OR_RETURN(chosen, MaxOfEach(std::move(chosen), deadline));
  std::vector<int> members;
  for (int r = 0; r < size_; ++r) {
    if (chosen[static_cast<std::size_t>(r)] != 0) members.push_back(r);
  }
  if (std::ssize(members) == size_) {
    auto pending = std::make_unique<Pending>();
    const int code = MPI_Comm_idup(comm_, &pending->comm, &pending->request);
    UCUDNN_RETURN_IF_ERROR(Begun("MPI_Comm_idup", code));
    UCUDNN_RETURN_IF_ERROR(Await(pending, deadline));
    return pending->comm;
  }
  if (!in) return MPI_COMM_NULL;
  auto creation = std::make_shared<Creation>();
  creation->parent = comm_;
  MPI_Group all = MPI_GROUP_NULL;
  MPI_Comm_group(comm_, &all);
  MPI_Group_incl(all, static_cast<int>(members.size()), members.data(),
                 &creation->group);
  MPI_Group_free(&all);
  std::future<int> code = creation->code.get_future();
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  if (level == MPI_THREAD_MULTIPLE) {
    std::thread maker([creation] { creation->Run(); });
    if (code.wait_until(deadline) != std::future_status::ready) {
      broken_ = true;
      maker.detach();
      return Fail(Code::kDeadlineExceeded,
                  "the ranks with images did not create their communicator in "
                  "time: one is lost");
    }
    maker.join();
  } else {
    creation->Run();
  }
  MPI_Group_free(&creation->group);
  if (const int made = code.get(); made != MPI_SUCCESS) {
    broken_ = true;
    return MpiFailure("MPI_Comm_create_group", made);
  }
  return creation->made;
}

}  // namespace ucudnn
