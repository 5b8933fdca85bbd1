# How every target of the project is declared: ucudnn_library for a room or a
# part of one, ucudnn_executable for a program, ucudnn_test for its tests. Each
# names its sources and its direct dependencies; nothing is globbed and no flag
# is global.

add_library(ucudnn_options INTERFACE)
target_compile_features(ucudnn_options INTERFACE cxx_std_20)
target_compile_options(
  ucudnn_options INTERFACE -Wall -Wextra -Wconversion -Wshadow
                           $<$<BOOL:${UCUDNN_WERROR}>:-Werror>)
target_include_directories(ucudnn_options INTERFACE ${PROJECT_SOURCE_DIR})
if(UCUDNN_SANITIZE)
  target_compile_options(ucudnn_options INTERFACE
    -fsanitize=${UCUDNN_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(ucudnn_options INTERFACE -fsanitize=${UCUDNN_SANITIZE})
endif()
if(UCUDNN_FUZZ)
  target_compile_options(ucudnn_options INTERFACE
    -fsanitize=fuzzer-no-link,address,undefined -fno-omit-frame-pointer)
  target_link_options(ucudnn_options INTERFACE -fsanitize=address,undefined)
endif()

# ucudnn_library(NAME SRCS ... HDRS ... DEPS ... [PRIVATE_DEPS ...])
# Declares ucudnn_NAME and its alias ucudnn::NAME. Each header of HDRS must
# compile alone (target ucudnn_NAME_verify_interface_header_sets).
function(ucudnn_library NAME)
  cmake_parse_arguments(A "" "" "SRCS;HDRS;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(ucudnn_${NAME} STATIC ${A_SRCS})
  add_library(ucudnn::${NAME} ALIAS ucudnn_${NAME})
  target_sources(ucudnn_${NAME} PUBLIC FILE_SET HEADERS
    BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${A_HDRS})
  set_target_properties(ucudnn_${NAME} PROPERTIES
    POSITION_INDEPENDENT_CODE ON
    VERIFY_INTERFACE_HEADER_SETS ON)
  target_link_libraries(ucudnn_${NAME} PUBLIC ucudnn_options ${A_DEPS}
                                       PRIVATE ${A_PRIVATE_DEPS})
endfunction()

# The same for a part that is headers only.
function(ucudnn_header_library NAME)
  cmake_parse_arguments(A "" "" "HDRS;DEPS" ${ARGN})
  add_library(ucudnn_${NAME} INTERFACE)
  add_library(ucudnn::${NAME} ALIAS ucudnn_${NAME})
  target_sources(ucudnn_${NAME} INTERFACE FILE_SET HEADERS
    BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${A_HDRS})
  set_target_properties(ucudnn_${NAME} PROPERTIES
    VERIFY_INTERFACE_HEADER_SETS ON)
  target_link_libraries(ucudnn_${NAME} INTERFACE ucudnn_options ${A_DEPS})
endfunction()

# ucudnn_executable(NAME SRCS ... DEPS ...): the program NAME, in bin/.
# ucudnn_program(...): the same for one that is installed.
function(ucudnn_executable NAME)
  cmake_parse_arguments(A "" "" "SRCS;DEPS" ${ARGN})
  add_executable(${NAME} ${A_SRCS})
  set_target_properties(${NAME} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  target_link_libraries(${NAME} PRIVATE ucudnn_options ${A_DEPS})
endfunction()

function(ucudnn_program NAME)
  ucudnn_executable(${NAME} ${ARGN})
  target_compile_definitions(${NAME} PRIVATE
    UCUDNN_VERSION="${PROJECT_VERSION}")
  install(TARGETS ${NAME} RUNTIME COMPONENT programs)
endfunction()

# ucudnn_test(NAME SRCS ... DEPS ... [LABELS unit|contract|integration]
#             [TIMEOUT seconds] [PROGRAMS ...])
# A GoogleTest program, one ctest entry. Tests find their data through
# UCUDNN_TEST_DATA and the PROGRAMS under test through UCUDNN_BIN_DIR. The
# target unit_tests builds all of label unit.
function(ucudnn_test NAME)
  cmake_parse_arguments(A "" "LABELS;TIMEOUT" "SRCS;DEPS;PROGRAMS" ${ARGN})
  if(NOT A_LABELS)
    set(A_LABELS unit)
  endif()
  if(NOT A_TIMEOUT)
    set(A_TIMEOUT 300)
  endif()
  add_executable(${NAME} ${A_SRCS})
  target_link_libraries(${NAME} PRIVATE ucudnn_options ${A_DEPS}
                                        GTest::gmock_main)
  target_compile_definitions(${NAME} PRIVATE
    UCUDNN_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data"
    UCUDNN_SHARED_DATA="${PROJECT_SOURCE_DIR}/../shared/data"
    UCUDNN_BIN_DIR="${PROJECT_BINARY_DIR}/bin")
  if(UCUDNN_SANITIZE)
    # Optimising a test's own instrumented code would be half of the build.
    target_compile_options(${NAME} PRIVATE -O0)
  endif()
  if(A_PROGRAMS)
    add_dependencies(${NAME} ${A_PROGRAMS})
  endif()
  if(A_LABELS STREQUAL unit)
    add_dependencies(unit_tests ${NAME})
  endif()
  add_test(NAME ${NAME} COMMAND ${NAME} --gtest_brief=1)
  set_tests_properties(${NAME} PROPERTIES LABELS ${A_LABELS}
                                          TIMEOUT ${A_TIMEOUT})
endfunction()
