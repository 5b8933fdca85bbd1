// The C interface in a build without MPI: it cannot create sessions.

#include "client/c_api/error.h"
#include "ucudnn/ucudnn.h"

const char* ucudnn_last_error_message(const ucudnn_session* /*session*/) {
  return ucudnn::c_api::ThreadError().message.c_str();
}

int64_t ucudnn_last_error_least(const ucudnn_session* /*session*/) {
  return ucudnn::c_api::ThreadError().least.value_or(-1);
}
