#ifndef UCUDNN_CLIENT_CLI_INPUT_H_
#define UCUDNN_CLIENT_CLI_INPUT_H_

#include <string>
#include <utility>

#include "base/files/file.h"
#include "base/result.h"
#include "base/text.h"
#include "client/solve/memory.h"

namespace ucudnn::ctl {

// The file that a flag names, decompressed, of at most `most`. Errors of
// ReadFile, as those of the request.
inline Result<MemoryProblem::Input> ReadInput(const std::string& path,
                                              Bytes most) {
  UCUDNN_ASSIGN_OR_RETURN(std::string contents, OfInput(ReadFile(path, most)));
  return MemoryProblem::Input{std::move(contents), Excerpt(path, 4096)};
}

}  // namespace ucudnn::ctl

#endif  // UCUDNN_CLIENT_CLI_INPUT_H_
