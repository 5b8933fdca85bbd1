#ifndef UCUDNN_TESTS_SUPPORT_TRIALS_H_
#define UCUDNN_TESTS_SUPPORT_TRIALS_H_

// How many of `count` random instances a long test uses: a tenth under the
// address sanitizer, which makes brute-force searches some 20 times slower. All
// of them are used by night (tests/nightly.sh).

namespace ucudnn {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSlowed = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
inline constexpr bool kSlowed = true;
#else
inline constexpr bool kSlowed = false;
#endif
#else
inline constexpr bool kSlowed = false;
#endif

constexpr int Trials(int count) { return kSlowed ? count / 10 : count; }

}  // namespace ucudnn

#endif  // UCUDNN_TESTS_SUPPORT_TRIALS_H_
