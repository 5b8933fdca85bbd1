#ifndef UCUDNN_CLIENT_CLI_NETWORK_OPTIONS_H_
#define UCUDNN_CLIENT_CLI_NETWORK_OPTIONS_H_

// --input-shape [INPUT=]C,H,W: sizes for ONNX models with symbolic ones.

#include "base/onnx/network_file.h"
#include "client/cli/command.h"

namespace ucudnn::ctl {

// May be given once for each input. A malformed shape is a parse error.
void AddInputShapeOption(CLI::App* command, InputShapes* shapes);

}  // namespace ucudnn::ctl

#endif  // UCUDNN_CLIENT_CLI_NETWORK_OPTIONS_H_
