#ifndef UCUDNN_TESTS_GPU_FIGURES_SCREENING_H_
#define UCUDNN_TESTS_GPU_FIGURES_SCREENING_H_

// Decides which of a problem's algorithms are worth measuring. Pure.

#include <cstdint>
#include <optional>
#include <vector>

#include "base/units.h"
#include "device/device.h"

namespace ucudnn::figures {

// How an algorithm's time grows with the batch, from single runs on increasing
// batches. An algorithm that transforms its filters takes long on one image and
// hardly longer on many, so only the increment per image predicts larger
// batches, not the time per image.
class Trend {
 public:
  void Add(BatchSize batch, double ns);
  // The predicted time of this many images; unknown from fewer than two runs.
  std::optional<double> At(BatchSize batch) const;

 private:
  struct Run {
    double images = 0;
    double ns = 0;
  };
  std::optional<Run> before_;
  std::optional<Run> last_;
};

// A single run on a batch.
struct Timed {
  Candidate candidate;
  double ns = 0;
};

// The shortest time of the candidate's rivals: those with no more workspace.
// Algorithms of the legacy API have only each other as rivals, because figures
// compare them only with each other.
std::optional<double> BestRival(const std::vector<Timed>& runs,
                                const Candidate& candidate);

// The indices of the algorithms that may be the fastest within some workspace:
// at most `near` times as slow as the best rival, with at most `most_faster`
// faster rivals.
std::vector<std::size_t> WorthMeasuring(const std::vector<Timed>& runs,
                                        double near, int most_faster);

struct SizedRun {
  BatchSize batch;
  Timed run;
};

// An algorithm that may be faster on up to `most` images, the largest batch
// that fits.
struct Promise {
  Algorithm algorithm;
  BatchSize known;  // the largest that ran and fits, or 0
  BatchSize most;
  double per_image = 0;  // predicted ns per image
};

// The algorithms that may take less than `best` ns per image on a batch between
// two that ran, of which the smaller fits `limit` and the larger does not; the
// most promising first. If none that ran fits, workspace is taken to be
// proportional to the images.
std::vector<Promise> PromisesOf(const std::vector<SizedRun>& runs, Bytes limit,
                                double best);

// The sizes of the fewest even parts of `batch` that are at most `most`: one
// size, or two that differ by 1, the larger first.
std::vector<BatchSize> EvenParts(BatchSize batch, BatchSize most);

}  // namespace ucudnn::figures

#endif  // UCUDNN_TESTS_GPU_FIGURES_SCREENING_H_
