# ONNX::ONNX, from Debian's libonnx-dev: the model's protobuf messages and the
# shape inference over them.
find_path(ONNX_INCLUDE_DIR onnx/onnx_pb.h)
find_library(ONNX_LIBRARY onnx)
find_library(ONNX_PROTO_LIBRARY onnx_proto)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(ONNX DEFAULT_MSG ONNX_LIBRARY
                                  ONNX_PROTO_LIBRARY ONNX_INCLUDE_DIR)
if(ONNX_FOUND AND NOT TARGET ONNX::ONNX)
  add_library(ONNX::ONNX UNKNOWN IMPORTED)
  set_target_properties(ONNX::ONNX PROPERTIES
    IMPORTED_LOCATION ${ONNX_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${ONNX_INCLUDE_DIR}
    INTERFACE_COMPILE_DEFINITIONS "ONNX_NAMESPACE=onnx;ONNX_ML=1"
    INTERFACE_LINK_LIBRARIES "${ONNX_PROTO_LIBRARY};protobuf::libprotobuf")
endif()
