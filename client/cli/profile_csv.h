#ifndef UCUDNN_CLIENT_CLI_PROFILE_CSV_H_
#define UCUDNN_CLIENT_CLI_PROFILE_CSV_H_

// Profiles of a coordinator as a file: the profile CSV of base/profile.h with
// more columns, so that `ucudnn solve` reads it too. A problem is its own layer
// of the network "measured".
//   problem                 its text; what the other columns cannot tell
//   spread_us, repeats, min_us, p90_us, enqueue_us
//   measured_on, driver, measured_ms, sm_clock_mhz, memory_clock_mhz, throttle
//   complete_bytes          up to which workspace every algorithm of the
//                           problem and batch was measured; empty: not so
//   complete_driver         and under what

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ucudnn/v1/types.pb.h"

namespace ucudnn::ctl {

std::string ProfilesToCsv(const std::vector<v1::Profile>& profiles);

// Reads back what ProfilesToCsv writes. kInvalidArgument, with line and column,
// for anything else; columns after time_us but `problem` may be missing.
Result<std::vector<v1::Profile>> ProfilesFromCsv(std::string_view text,
                                                 std::string_view source);

}  // namespace ucudnn::ctl

#endif  // UCUDNN_CLIENT_CLI_PROFILE_CSV_H_
