#ifndef UCUDNN_COORDINATOR_REQUEST_CHECK_H_
#define UCUDNN_COORDINATOR_REQUEST_CHECK_H_

#include <google/protobuf/message.h>

#include <string>

#include "base/result.h"

namespace ucudnn {

// kInvalidArgument unless the text can name a network or a step: names go into
// URLs, tables and file names.
Status CheckName(const std::string& name);

// kInvalidArgument, naming the field, if a text of the request is longer than
// kMaxTextBytes (limits.h), since lists show such texts again and again, or a
// number is negative or not finite. Upper bounds differ and are checked where
// numbers are used. O(request).
Status CheckRequest(const google::protobuf::Message& request);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_REQUEST_CHECK_H_
