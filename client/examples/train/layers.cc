#include "client/examples/train/layers.h"

namespace ucudnn::train {

Result<std::unique_ptr<Layers>> MakeLayers(Device& device) {
  std::unique_ptr<Layers> layers;
#ifdef UCUDNN_WITH_CUDNN
  UCUDNN_ASSIGN_OR_RETURN(layers, MakeCudnnLayers(device));
  if (layers != nullptr) return layers;
#endif
#ifdef UCUDNN_WITH_ONEDNN
  UCUDNN_ASSIGN_OR_RETURN(layers, MakeOneDnnLayers(device));
  if (layers != nullptr) return layers;
#endif
  return Fail(Code::kUnimplemented, "{} computes nothing but convolutions",
              device.info().id);
}

}  // namespace ucudnn::train
