#include "device/operators/open.h"

#ifdef UCUDNN_WITH_CUDNN
#include "device/cudnn/operators/operators.h"
#endif
#ifdef UCUDNN_WITH_ONEDNN
#include "device/onednn/operators.h"
#endif

namespace ucudnn {

Result<std::unique_ptr<Operators>> OpenOperators(Device& device) {
  std::unique_ptr<Operators> operators;
#ifdef UCUDNN_WITH_CUDNN
  UCUDNN_ASSIGN_OR_RETURN(operators, OpenCudnnOperators(device));
  if (operators != nullptr) return operators;
#endif
#ifdef UCUDNN_WITH_ONEDNN
  operators = OpenOneDnnOperators(device);
  if (operators != nullptr) return operators;
#endif
  return Fail(Code::kUnimplemented, "{} computes nothing but convolutions",
              device.info().id);
}

}  // namespace ucudnn
