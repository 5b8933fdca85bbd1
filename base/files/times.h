#ifndef UCUDNN_BASE_FILES_TIMES_H_
#define UCUDNN_BASE_FILES_TIMES_H_

// How long each GPU of a job takes for an iteration, by its share of the
// batch: the input of the assignment.
//
// The file form is CSV with a header, plain or gzip; columns are found by name
// and unknown ones ignored:
//   gpu,batch,time_us          or   gpu,batch,ms_per_iteration
// with an optional column `model`. time_us counts where both are given. Each
// `gpu` is one device; a pair of gpu and batch that is missing cannot be used,
// and times need not be monotone.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace ucudnn {

struct BatchTime {
  BatchSize batch;
  Nanoseconds time{0};

  friend bool operator==(const BatchTime&, const BatchTime&) = default;
};

struct GpuTimes {
  std::string gpu;
  std::vector<BatchTime> times;  // by rising batch, each once

  friend bool operator==(const GpuTimes&, const GpuTimes&) = default;
};

// Reads the rows of `model`, or all where it is empty; GPUs in the order in
// which they are first named. Rows that share gpu and batch are repeated
// measurements, whatever they differ in otherwise (a column `source`, say):
// their median counts. Rows of other models are not looked at.
//
// `source` names the text in errors, which give the line, the column, the
// value and what is accepted. kInvalidArgument: a column is missing or
// doubled, a row has another number of fields than the header, a field does
// not parse, there is no row, `model` is empty and there are several, or it is
// given and there is no such column. kNotFound: no row is of `model`; the
// models there are, are named. O(rows log rows).
Result<std::vector<GpuTimes>> ParseTimesCsv(std::string_view text,
                                            std::string_view model,
                                            std::string_view source);

// The same from a file; errors as ReadFile (base/files/file.h) has them.
Result<std::vector<GpuTimes>> ReadTimesFile(const std::string& path,
                                            std::string_view model,
                                            Bytes max_size = 1_GiB);

// What ParseTimesCsv reads back, without a model.
std::string ToCsv(const std::vector<GpuTimes>& gpus);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_FILES_TIMES_H_
