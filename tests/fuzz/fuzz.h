#ifndef UCUDNN_TESTS_FUZZ_FUZZ_H_
#define UCUDNN_TESTS_FUZZ_FUZZ_H_

// What the fuzz targets share. A target is one file, here plan_json_fuzz.cc:
//
//   UCUDNN_FUZZ(plan_json, text) {
//     const auto plan = ParseWorkspacePlan(text, "fuzz");
//     if (!plan) return CheckError(plan.error());
//     UCUDNN_CHECK(...);
//   }
//
// Built by clang with UCUDNN_FUZZ it is a libFuzzer program. All targets built
// by any compiler with replay_main.cc (UCUDNN_REPLAY) are one program that runs
// their corpora as tests.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "base/text.h"

#ifdef UCUDNN_REPLAY

namespace ucudnn {

bool AddFuzzTarget(std::string_view name, void (*run)(std::string_view));

}  // namespace ucudnn

#define UCUDNN_FUZZ(name, text)                     \
  static void Fuzz_##name(std::string_view text);   \
  [[maybe_unused]] static const bool added_##name = \
      ::ucudnn::AddFuzzTarget(#name, &Fuzz_##name); \
  static void Fuzz_##name(std::string_view text)

#else

#define UCUDNN_FUZZ(name, text)                                        \
  static void Fuzz(std::string_view text);                             \
  extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,      \
                                        std::size_t size) {            \
    Fuzz(std::string_view(reinterpret_cast<const char*>(data), size)); \
    return 0;                                                          \
  }                                                                    \
  static void Fuzz(std::string_view text)

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size);

#endif

namespace ucudnn {

// An error that bad input may cause: it says something, and can be printed,
// stored and sent.
inline void CheckError(const Error& error) {
  UCUDNN_CHECK(error.code != Code::kOk && error.code != Code::kInternal);
  UCUDNN_CHECK(!error.message.empty());
  UCUDNN_CHECK(IsPlainText(error.message));
}

}  // namespace ucudnn

#endif  // UCUDNN_TESTS_FUZZ_FUZZ_H_
