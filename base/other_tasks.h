#ifndef UCUDNN_BASE_OTHER_TASKS_H_
#define UCUDNN_BASE_OTHER_TASKS_H_

// The tasks of a network's training iteration that are not convolutions, which
// are measured together at one batch. They are a problem beside the
// convolutions' (base/conv_problem.h): its points are the tasks' times, with a
// task's name as the algorithm's. A normalisation has two points: alone, and,
// with kExchanged behind its name, as it runs where several ranks exchange
// their statistics.

#include <string>
#include <string_view>

#include "base/conv_problem.h"
#include "base/result.h"

namespace ucudnn {

inline constexpr std::string_view kExchanged = ".exchanged";

struct OtherTasks {
  std::string network;  // SHA-256 of its ONNX model, in hexadecimal digits
  Precision precision = Precision::kFp32;
  bool momentum = false;  // updates keep one for each weight

  friend bool operator==(const OtherTasks&, const OtherTasks&) = default;
};

// Its one text form: "tasks-<network>-FP32-NCHW", or
// "tasks-<network>-momentum-FP32-NCHW".
std::string ToString(const OtherTasks& tasks);
// Reads back exactly what ToString writes; kInvalidArgument for anything else.
Result<OtherTasks> ParseOtherTasks(std::string_view text);

// Whether a problem's text is of other tasks, if it is valid.
bool IsOtherTasks(std::string_view problem);

// What every key of measurements is: a convolution or other tasks.
// kInvalidArgument.
Status CheckProblem(std::string_view text);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_OTHER_TASKS_H_
