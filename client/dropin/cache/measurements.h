#ifndef UCUDNN_CLIENT_DROPIN_CACHE_MEASUREMENTS_H_
#define UCUDNN_CLIENT_DROPIN_CACHE_MEASUREMENTS_H_

// This machine's own measurements, in files that any number of processes share:
// one for each device kind and problem,
//   <directory>/measured/<kind>/<problem>.json
// replaced atomically. An unreadable file counts as absent.

#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/conv_problem.h"
#include "base/profile.h"
#include "base/result.h"
#include "base/units.h"

namespace ucudnn {

// All algorithms measured on one batch size, up to a workspace. No points: none
// could run.
struct MeasuredBatch {
  Bytes max_workspace;
  std::vector<MeasuredPoint> points;

  friend bool operator==(const MeasuredBatch&, const MeasuredBatch&) = default;
};

// A question to the adaptive policy: measure what plans for a mini-batch need
// under `limit` or, if `each_below`, under every limit up to it.
struct AdaptiveQuery {
  BatchSize batch;
  Bytes limit;
  bool each_below = false;

  friend auto operator<=>(const AdaptiveQuery&, const AdaptiveQuery&) = default;
};

struct ProblemMeasurements {
  std::map<BatchSize, MeasuredBatch> batches;
  // Points measured singly, without the other algorithms of their batch size,
  // and the adaptive questions that they answer.
  std::vector<MeasuredPoint> singles;
  std::set<AdaptiveQuery> queries;

  friend bool operator==(const ProblemMeasurements&,
                         const ProblemMeasurements&) = default;
};

// The text of a file, and its parser. kInvalidArgument if the text is malformed
// or is about another kind or problem.
std::string ToJsonText(const ProblemMeasurements& measurements,
                       const std::string& kind, const ConvProblem& problem);
Result<ProblemMeasurements> ParseMeasurements(std::string_view text,
                                              const std::string& kind,
                                              const ConvProblem& problem);

// The files of one device kind. Thread safe.
class MeasurementFiles {
 public:
  // With an empty `directory`, nothing is read, written or locked.
  MeasurementFiles(const std::string& directory, std::string kind);

  // A file lock, held by one process at a time. The system releases it when the
  // process ends.
  class Lock {
   public:
    explicit Lock(int descriptor) : descriptor_(descriptor) {}
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    ~Lock();

   private:
    int descriptor_;
  };

  // Empty if there is no readable file.
  ProblemMeasurements Read(const ConvProblem& problem) const;
  // Errors of ReplaceFile (base/files/file.h).
  Status Write(const ConvProblem& problem,
               const ProblemMeasurements& measurements) const;
  // Waits while another process measures `problem`. Null if there is no
  // directory or it is not writable; kDeadlineExceeded after `patience`.
  Result<std::unique_ptr<Lock>> Acquire(const ConvProblem& problem,
                                        std::chrono::milliseconds patience);

 private:
  std::string Path(const ConvProblem& problem) const;

  std::string folder_;  // empty: no files
  std::string kind_;
};

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_DROPIN_CACHE_MEASUREMENTS_H_
