#ifndef UCUDNN_BASE_FILES_TIMES_H_
#define UCUDNN_BASE_FILES_TIMES_H_

// The iteration time of each GPU of a job by its share of the batch: the input
// of batch assignment.
//
// The file form is CSV with a header, plain or gzip; columns are found by name
// and unknown ones ignored:
//   gpu,batch,time_us          or   gpu,batch,ms_per_iteration
// with an optional column `model`. time_us wins if both are given. Each `gpu`
// is one device; a pair of gpu and batch that is missing cannot be used, and
// times need not be monotone.

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
  std::vector<BatchTime> times;  // in ascending order of batch, each once

  friend bool operator==(const GpuTimes&, const GpuTimes&) = default;
};

// Reads the rows of `model`, or all if it is empty; GPUs in order of first
// appearance. Rows that share gpu and batch are repeated measurements, whatever
// they differ in otherwise (a column `source`, say): their median counts. Rows
// of other models are ignored.
//
// `source` names the text in errors, which give the line, the column, the
// value and what is accepted. kInvalidArgument: a column is missing or
// duplicated, a row and the header differ in their number of fields, a field
// does not parse, there is no row, `model` is empty and there are several
// models, or it is given and there is no column `model`. kNotFound, listing the
// models: no row is of `model`. O(rows log rows).
Result<std::vector<GpuTimes>> ParseTimesCsv(std::string_view text,
                                            std::string_view model,
                                            std::string_view source);

// The same from a file; also returns the errors of ReadFile
// (base/files/file.h).
Result<std::vector<GpuTimes>> ReadTimesFile(const std::string& path,
                                            std::string_view model,
                                            Bytes max_size = 1_GiB);

// The CSV that ParseTimesCsv reads back, without a column `model`.
std::string ToCsv(const std::vector<GpuTimes>& gpus);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_FILES_TIMES_H_
