#ifndef UCUDNN_COORDINATOR_ACTIONS_H_
#define UCUDNN_COORDINATOR_ACTIONS_H_

// What people did, for the log and those who read it.

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <string>

#include "base/result.h"
#include "base/service/log.h"
#include "coordinator/store/actions.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {

// "by alice@host: no longer needed"
inline std::string ByWhomAndWhy(const std::string& who,
                                const std::string& reason) {
  return fmt::format("by {}: {}", who.empty() ? "somebody" : who,
                     reason.empty() ? "no reason given" : reason);
}

// Has `remove` delete the object and record that; logs it afterwards.
template <class Remove>
Result<v1::DeleteResponse> Delete(const v1::DeleteRequest& request,
                                  const std::string& object, UnixMillis now_ms,
                                  const Remove& remove) {
  UCUDNN_RETURN_IF_ERROR(remove(ActionRecord{.made_ms = now_ms,
                                             .who = request.who(),
                                             .what = "delete",
                                             .object = object,
                                             .reason = request.reason(),
                                             .outcome = "deleted"}));
  spdlog::info("event=delete object={} who={} why={}", Quoted(object),
               Quoted(request.who()), Quoted(request.reason()));
  return v1::DeleteResponse();
}

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_ACTIONS_H_
