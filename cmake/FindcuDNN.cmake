# cuDNN::headers: the headers of CUDA and cuDNN. device/cudnn loads the
# libraries at run time, so one binary runs with and without a GPU. Where the
# machine has no headers, deploy/python-venv.sh fetches them.
set(cuDNN_FETCHED ${PROJECT_SOURCE_DIR}/build/venv/cuda/include)
find_path(cuDNN_INCLUDE_DIR cudnn.h
  HINTS /usr/local/cuda/include $ENV{CUDA_HOME}/include $ENV{CUDNN_HOME}/include
        ${cuDNN_FETCHED})
find_path(cuDNN_CUDA_INCLUDE_DIR cuda_runtime_api.h
  HINTS /usr/local/cuda/include $ENV{CUDA_HOME}/include ${cuDNN_FETCHED})
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(cuDNN DEFAULT_MSG cuDNN_INCLUDE_DIR
                                  cuDNN_CUDA_INCLUDE_DIR)
if(cuDNN_FOUND AND NOT TARGET cuDNN::headers)
  add_library(cuDNN::headers INTERFACE IMPORTED)
  set_target_properties(cuDNN::headers PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES
      "${cuDNN_INCLUDE_DIR};${cuDNN_CUDA_INCLUDE_DIR}")
endif()
