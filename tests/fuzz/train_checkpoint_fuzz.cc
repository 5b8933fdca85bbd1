#include "client/train/checkpoint.h"
#include "tests/fuzz/fuzz.h"

namespace ucudnn {

// What is read is written as it was.
UCUDNN_FUZZ(train_checkpoint, text) {
  const auto checkpoint = train::DecodeCheckpoint(text, "fuzz");
  if (!checkpoint) return CheckError(checkpoint.error());
  UCUDNN_CHECK(train::Encode(*checkpoint) == text);
}

}  // namespace ucudnn
