#include <algorithm>

#include "base/files/times.h"
#include "tests/fuzz/fuzz.h"

namespace ucudnn {

// Batches rise, and what is written reads back.
UCUDNN_FUZZ(times_csv, text) {
  for (const std::string_view model : {"", "A"}) {
    const auto gpus = ParseTimesCsv(text, model, "fuzz");
    if (!gpus) {
      CheckError(gpus.error());
      continue;
    }
    UCUDNN_CHECK(!gpus->empty());
    bool exact = true;
    for (const GpuTimes& gpu : *gpus) {
      UCUDNN_CHECK(!gpu.times.empty());
      const auto unordered =
          std::adjacent_find(gpu.times.begin(), gpu.times.end(),
                             [](const BatchTime& a, const BatchTime& b) {
                               return a.batch >= b.batch;
                             });
      UCUDNN_CHECK(unordered == gpu.times.end());
      for (const BatchTime& point : gpu.times) {
        exact = exact && point.time.count() < std::int64_t{1} << 51;
      }
    }
    const auto again = ParseTimesCsv(ToCsv(*gpus), "", "again");
    UCUDNN_CHECK(again && (!exact || *again == *gpus));
  }
}

}  // namespace ucudnn
