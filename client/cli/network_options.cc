#include "client/cli/network_options.h"

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace ucudnn::ctl {

void AddInputShapeOption(CLI::App* command, InputShapes* shapes) {
  static constexpr char kFlag[] = "--input-shape";
  command
      ->add_option_function<std::vector<std::string>>(
          kFlag,
          [shapes](const std::vector<std::string>& texts) {
            for (const std::string& text : texts) {
              Result<InputShape> shape = ParseInputShape(text);
              if (!shape) {
                throw CLI::ValidationError(kFlag, shape.error().message);
              }
              shapes->push_back(*std::move(shape));
            }
          },
          "The sizes besides the batch of an ONNX model's input, where they "
          "are symbolic, such as 3,224,224")
      ->option_text("[INPUT=]C,H,W")
      ->take_all();
}

}  // namespace ucudnn::ctl
