#ifndef UCUDNN_TESTS_GPU_FIGURES_SCREENING_H_
#define UCUDNN_TESTS_GPU_FIGURES_SCREENING_H_

// Which of a problem's algorithms are worth the time of measuring them. Pure.

#include <cstdint>
#include <optional>
#include <vector>

#include "base/units.h"
#include "device/device.h"

namespace ucudnn::figures {

// How an algorithm's time grows with the batch, from single runs on rising
// batches. An algorithm that transforms its filters takes long on one image and
// hardly longer on many: what it takes an image says nothing about more of
// them, only what each one more costs.
class Trend {
 public:
  void Add(BatchSize batch, double ns);
  // What so many images may take; unknown from fewer than two runs.
  std::optional<double> At(BatchSize batch) const;

 private:
  struct Run {
    double images = 0;
    double ns = 0;
  };
  std::optional<Run> before_;
  std::optional<Run> last_;
};

// A single run on some batch.
struct Timed {
  Candidate candidate;
  double ns = 0;
};

// The shortest time of the candidate's rivals: those with no more workspace.
// The first interface's algorithms have only each other as rivals, since
// figures compare with them alone.
std::optional<double> BestRival(const std::vector<Timed>& runs,
                                const Candidate& candidate);

// The indices of those that may be the fastest within some workspace: no more
// than `near` times as long as the best rival, and with no more than
// `most_faster` rivals that were faster.
std::vector<std::size_t> WorthMeasuring(const std::vector<Timed>& runs,
                                        double near, int most_faster);

struct SizedRun {
  BatchSize batch;
  Timed run;
};

// An algorithm that may be faster on up to `most` images, all that fit.
struct Promise {
  Algorithm algorithm;
  BatchSize known;  // what ran and fits, or 0
  BatchSize most;
  double per_image = 0;  // ns that it may take then
};

// Which algorithms may take less than `best` ns an image on a batch between two
// that ran, of which the smaller one fits `limit` and the larger one does not;
// the most promising first. Where none that ran fits, what the larger one needs
// is taken to be in proportion to its images.
std::vector<Promise> PromisesOf(const std::vector<SizedRun>& runs, Bytes limit,
                                double best);

// The sizes of the fewest even parts of `batch` that are no larger than `most`:
// one, or two that differ by 1, the larger first.
std::vector<BatchSize> EvenParts(BatchSize batch, BatchSize most);

}  // namespace ucudnn::figures

#endif  // UCUDNN_TESTS_GPU_FIGURES_SCREENING_H_
