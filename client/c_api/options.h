#ifndef UCUDNN_CLIENT_C_API_OPTIONS_H_
#define UCUDNN_CLIENT_C_API_OPTIONS_H_

// Options of the C interface: parses name and value texts into session options.

#include <string>
#include <string_view>

#include "base/result.h"
#include "client/session/session.h"

namespace ucudnn::c_api {

struct Options {
  SessionOptions session;
  std::string network_name;  // empty: the name in the file
  std::string device = "auto";
};

// As ucudnn_options_set (ucudnn/ucudnn.h).
Status SetOption(Options* options, std::string_view name,
                 const std::string& value);

}  // namespace ucudnn::c_api

#endif  // UCUDNN_CLIENT_C_API_OPTIONS_H_
