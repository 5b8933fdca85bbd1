#ifndef UCUDNN_CLIENT_DROPIN_CACHE_MEASUREMENTS_H_
#define UCUDNN_CLIENT_DROPIN_CACHE_MEASUREMENTS_H_

// What this machine has measured itself, kept in files that any number of
// processes share: one for each kind of device and problem,
//   <directory>/measured/<kind>/<problem>.json
// replaced in one step. A file that cannot be read counts as absent.

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

// All algorithms on one batch up to a workspace; no points: none could run.
struct MeasuredBatch {
  Bytes max_workspace;
  std::vector<MeasuredPoint> points;

  friend bool operator==(const MeasuredBatch&, const MeasuredBatch&) = default;
};

// What the adaptive policy was asked: all that plans for a mini-batch need
// under a limit, or under each up to it.
struct AdaptiveLook {
  BatchSize batch;
  Bytes limit;
  bool each_below = false;

  friend auto operator<=>(const AdaptiveLook&, const AdaptiveLook&) = default;
};

struct ProblemMeasurements {
  std::map<BatchSize, MeasuredBatch> batches;
  // Measured without the others of their batch, and what for.
  std::vector<MeasuredPoint> singles;
  std::set<AdaptiveLook> looks;
  // How far an algorithm's result is from the exact one (local/accuracy.h).
  std::map<Algorithm, double> errors;

  friend bool operator==(const ProblemMeasurements&,
                         const ProblemMeasurements&) = default;
};

// The text of a file, and back. kInvalidArgument if it is another kind's or
// problem's, or no such text.
std::string ToJsonText(const ProblemMeasurements& measurements,
                       const std::string& kind, const ConvProblem& problem);
Result<ProblemMeasurements> ParseMeasurements(std::string_view text,
                                              const std::string& kind,
                                              const ConvProblem& problem);

// The files of one kind of device. Thread safe.
class MeasurementFiles {
 public:
  // No `directory`: nothing is kept, and nothing locked.
  MeasurementFiles(const std::string& directory, std::string kind);

  // Held by one process at a time; the system lets go of it when that dies.
  class Lock {
   public:
    explicit Lock(int descriptor) : descriptor_(descriptor) {}
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    ~Lock();

   private:
    int descriptor_;
  };

  // Empty if there is no such file, or none that can be read.
  ProblemMeasurements Read(const ConvProblem& problem) const;
  // Errors of ReplaceFile (base/files/file.h).
  Status Write(const ConvProblem& problem,
               const ProblemMeasurements& measurements) const;
  // Waits for who else measures `problem`. Null without a directory or where
  // none can be written; kDeadlineExceeded after `patience`.
  Result<std::unique_ptr<Lock>> Acquire(const ConvProblem& problem,
                                        std::chrono::milliseconds patience);

 private:
  std::string Path(const ConvProblem& problem) const;

  std::string folder_;  // empty: none
  std::string kind_;
};

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_DROPIN_CACHE_MEASUREMENTS_H_
