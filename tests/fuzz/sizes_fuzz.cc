#include "base/plan/plan.h"
#include "base/units.h"
#include "tests/fuzz/fuzz.h"

namespace ucudnn {

// Quantities and names: in range, and reading back as they are written.
UCUDNN_FUZZ(sizes, text) {
  if (const auto bytes = ParseBytes(text)) {
    UCUDNN_CHECK(*bytes >= Bytes(0) && *bytes <= Bytes(std::int64_t{1} << 62));
    UCUDNN_CHECK(ParseBytes(FormatBytes(*bytes)) == *bytes);
    UCUDNN_CHECK(!HumanBytes(*bytes).empty());
  } else {
    CheckError(bytes.error());
  }
  for (const auto parse : {ParseMicroseconds, ParseMilliseconds}) {
    const auto time = parse(text);
    if (!time) {
      CheckError(time.error());
      continue;
    }
    UCUDNN_CHECK(time->count() >= 0);
    if (time->count() < std::int64_t{1} << 51) {
      UCUDNN_CHECK(ParseMicroseconds(FormatMicroseconds(*time)) == *time);
    }
    UCUDNN_CHECK(!HumanTime(*time).empty());
  }
  if (const auto n = ParseInteger(text, -5, 1000)) {
    UCUDNN_CHECK(*n >= -5 && *n <= 1000);
  } else {
    CheckError(n.error());
  }
  const auto policy = ParseBatchPolicy(text);
  if (!policy) CheckError(policy.error());
  UCUDNN_CHECK(IsPlainText(Excerpt(text)));
  UCUDNN_CHECK(!IsPlainText(text) || text.size() > 64 || Excerpt(text) == text);
}

}  // namespace ucudnn
