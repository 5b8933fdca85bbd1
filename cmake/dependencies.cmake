# The project's dependencies. The first group is required; those of the second
# are used if found, and listed at the end of configuring; those of the third are
# required by the tests (deploy/install-packages.sh --tests).

find_package(CURL REQUIRED) # its header: client/dropin/ask loads it
find_package(Threads REQUIRED)
find_package(fmt CONFIG REQUIRED)
find_package(spdlog CONFIG REQUIRED)
find_package(nlohmann_json CONFIG REQUIRED)
find_package(CLI11 CONFIG REQUIRED)
find_package(tl-expected CONFIG REQUIRED)
find_package(tomlplusplus CONFIG REQUIRED)
find_package(ZLIB REQUIRED)
find_package(Protobuf REQUIRED) # module mode, and before gRPC
find_package(gRPC CONFIG REQUIRED)
find_package(SQLiteCpp CONFIG REQUIRED)
find_package(prometheus-cpp CONFIG REQUIRED)
find_package(yaml-cpp CONFIG REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(Boost 1.74 REQUIRED) # asio and Beast, which are headers alone
pkg_check_modules(CBC REQUIRED IMPORTED_TARGET cbc) # with CLP

find_package(MPI COMPONENTS CXX QUIET)
find_package(oneDNN QUIET)
find_package(cuDNN QUIET)
find_package(ONNX QUIET)
find_package(GLPK QUIET)
pkg_check_modules(LIBPQ QUIET IMPORTED_TARGET libpq)

find_program(UCUDNN_NODE NAMES node nodejs)
find_program(UCUDNN_NPM npm)

if(BUILD_TESTING)
  find_package(GTest CONFIG REQUIRED)
  pkg_check_modules(HTTPLIB REQUIRED IMPORTED_TARGET cpp-httplib)
  find_library(RAPIDCHECK_LIBRARY rapidcheck REQUIRED)
  find_package(benchmark CONFIG REQUIRED)
  find_package(GLPK REQUIRED)
  find_program(CHROMIUM chromium REQUIRED)
  # Debian's Python, and that of deploy/python-venv.sh, which has PyTorch.
  find_program(UCUDNN_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH REQUIRED)
  find_program(UCUDNN_VENV_PYTHON python
    PATHS ${PROJECT_SOURCE_DIR}/build/venv/bin NO_DEFAULT_PATH)
endif()

# ucudnn_optional(NAME FOUND WHAT): an option UCUDNN_WITH_NAME, on if found.
function(ucudnn_optional NAME FOUND WHAT)
  if(FOUND)
    option(UCUDNN_WITH_${NAME} "${WHAT}" ON)
  else()
    if(UCUDNN_WITH_${NAME})
      message(FATAL_ERROR "UCUDNN_WITH_${NAME}=ON, but what it needs was not "
        "found: ${WHAT}. deploy/install-packages.sh --tests and "
        "deploy/python-venv.sh install all.")
    endif()
    set(UCUDNN_WITH_${NAME} OFF PARENT_SCOPE)
  endif()
  if(FOUND AND UCUDNN_WITH_${NAME})
    message(STATUS "  ${NAME}: yes  (${WHAT})")
  else()
    message(STATUS "  ${NAME}: no   (${WHAT})")
  endif()
endfunction()

message(STATUS "Optional parts:")
ucudnn_optional(CUDNN "${cuDNN_FOUND}" "cuDNN devices")
ucudnn_optional(ONEDNN "${oneDNN_FOUND}" "the CPU as a device")
ucudnn_optional(MPI "${MPI_CXX_FOUND}" "sessions of MPI jobs")
ucudnn_optional(POSTGRES "${LIBPQ_FOUND}" "the PostgreSQL store")
ucudnn_optional(ONNX "${ONNX_FOUND}" "networks from ONNX models")
ucudnn_optional(GLPK "${GLPK_FOUND}" "ucudnn-glpk, under the GPL")
set(UCUDNN_NPM_FOUND OFF)
if(UCUDNN_NODE AND UCUDNN_NPM)
  set(UCUDNN_NPM_FOUND ON)
endif()
ucudnn_optional(PAGE "${UCUDNN_NPM_FOUND}" "the coordinator's page, by npm")
if(BUILD_TESTING)
  ucudnn_optional(PYTHON_TESTS "${UCUDNN_VENV_PYTHON}"
    "tests of the Python package, by deploy/python-venv.sh")
endif()
