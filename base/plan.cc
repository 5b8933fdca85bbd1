#include "base/plan.h"

#include "base/text.h"

namespace ucudnn {

std::string_view Name(BatchPolicy policy) {
  switch (policy) {
    case BatchPolicy::kAll:
      return "all";
    case BatchPolicy::kPowerOfTwo:
      return "powerOfTwo";
    case BatchPolicy::kUndivided:
      return "undivided";
    case BatchPolicy::kAdaptive:
      return "adaptive";
  }
  return "";
}

Result<BatchPolicy> ParseBatchPolicy(std::string_view text) {
  for (const BatchPolicy policy :
       {BatchPolicy::kAll, BatchPolicy::kPowerOfTwo, BatchPolicy::kUndivided,
        BatchPolicy::kAdaptive}) {
    if (Name(policy) == text) return policy;
  }
  return Fail(Code::kInvalidArgument,
              "'{}' is not a batch policy; all, powerOfTwo, undivided or "
              "adaptive is accepted",
              Excerpt(text));
}

}  // namespace ucudnn
