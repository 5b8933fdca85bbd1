# Functions that declare the project's targets: ucudnn_library for a room or a
# part of one, ucudnn_executable for a program, ucudnn_tests for tests. Each
# call lists sources and direct dependencies; there are no globs and no global
# flags.
#
# UCUDNN_UNITY compiles all sources of a library, a program or a room's tests as
# one, which saves most of the time for headers in builds from nothing. So names
# in their unnamed namespaces must differ. For work on one source, dev compiles
# each by itself.

set(CMAKE_UNITY_BUILD ${UCUDNN_UNITY})
set(CMAKE_UNITY_BUILD_BATCH_SIZE 0)

add_library(ucudnn_options INTERFACE)
target_compile_features(ucudnn_options INTERFACE cxx_std_20)
target_compile_options(
  ucudnn_options INTERFACE -Wall -Wextra -Wconversion -Wshadow
                           $<$<BOOL:${UCUDNN_WERROR}>:-Werror>)
target_include_directories(ucudnn_options INTERFACE ${PROJECT_SOURCE_DIR})
if(UCUDNN_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # Sources as long as a room fill more memory than GCC likes to collect in: some
  # 2 GiB instead of 1.5, and a tenth less time.
  target_compile_options(ucudnn_options INTERFACE
    --param=ggc-min-heapsize=4000000)
endif()
find_program(UCUDNN_LLD ld.lld)
if(UCUDNN_LLD AND NOT CMAKE_BUILD_TYPE STREQUAL Release)
  target_link_options(ucudnn_options INTERFACE -fuse-ld=lld)
endif()
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

# Declares headers of the target. Each must compile alone: that of a source
# name.cc, which includes name.h first, does in dev, where sources are compiled
# one by one; the others do in all_verify_interface_header_sets. tests/nightly.sh
# builds both.
function(ucudnn_headers TARGET SCOPE)
  foreach(HEADER ${ARGN})
    cmake_path(REPLACE_EXTENSION HEADER cc OUTPUT_VARIABLE SOURCE)
    if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${SOURCE})
      list(APPEND WITH_SOURCE ${HEADER})
    else()
      list(APPEND ALONE ${HEADER})
    endif()
  endforeach()
  target_sources(${TARGET} ${SCOPE}
    FILE_SET alone TYPE HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${ALONE}
    FILE_SET with_source TYPE HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}
             FILES ${WITH_SOURCE})
  set_target_properties(${TARGET} PROPERTIES
    VERIFY_INTERFACE_HEADER_SETS ON INTERFACE_HEADER_SETS_TO_VERIFY alone)
endfunction()

# ucudnn_library(NAME SRCS ... HDRS ... DEPS ... [PRIVATE_DEPS ...])
# Declares ucudnn_NAME and its alias ucudnn::NAME.
function(ucudnn_library NAME)
  cmake_parse_arguments(A "" "" "SRCS;HDRS;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(ucudnn_${NAME} STATIC ${A_SRCS})
  add_library(ucudnn::${NAME} ALIAS ucudnn_${NAME})
  ucudnn_headers(ucudnn_${NAME} PUBLIC ${A_HDRS})
  set_target_properties(ucudnn_${NAME} PROPERTIES
    POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(ucudnn_${NAME} PUBLIC ucudnn_options ${A_DEPS}
                                       PRIVATE ${A_PRIVATE_DEPS})
endfunction()

# ucudnn_part(NAME SRCS ... HDRS ...): more sources of a library.
function(ucudnn_part NAME)
  cmake_parse_arguments(A "" "" "SRCS;HDRS" ${ARGN})
  target_sources(ucudnn_${NAME} PRIVATE ${A_SRCS})
  ucudnn_headers(ucudnn_${NAME} PUBLIC ${A_HDRS})
endfunction()

# ucudnn_header_library(NAME HDRS ... DEPS ...): a library of headers alone.
function(ucudnn_header_library NAME)
  cmake_parse_arguments(A "" "" "HDRS;DEPS" ${ARGN})
  add_library(ucudnn_${NAME} INTERFACE)
  add_library(ucudnn::${NAME} ALIAS ucudnn_${NAME})
  ucudnn_headers(ucudnn_${NAME} INTERFACE ${A_HDRS})
  target_link_libraries(ucudnn_${NAME} INTERFACE ucudnn_options ${A_DEPS})
endfunction()

# ucudnn_executable(NAME SRCS ... DEPS ...): the program NAME, in bin/.
# ucudnn_program(... [COMPONENT name]): the same for one that is installed, with
# the component `programs` unless named.
function(ucudnn_executable NAME)
  cmake_parse_arguments(A "" "" "SRCS;DEPS" ${ARGN})
  add_executable(${NAME} ${A_SRCS})
  set_target_properties(${NAME} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  target_link_libraries(${NAME} PRIVATE ucudnn_options ${A_DEPS})
endfunction()

function(ucudnn_program NAME)
  cmake_parse_arguments(I "" "COMPONENT" "" ${ARGN})
  if(NOT I_COMPONENT)
    set(I_COMPONENT programs)
  endif()
  ucudnn_executable(${NAME} ${I_UNPARSED_ARGUMENTS})
  target_compile_definitions(${NAME} PRIVATE
    UCUDNN_VERSION="${PROJECT_VERSION}")
  install(TARGETS ${NAME} RUNTIME COMPONENT ${I_COMPONENT})
endfunction()

# ucudnn_tests(ROOM SRCS a_test.cc ... DEPS ...
#              [HELPERS ...] [PROGRAMS ...] [LABEL unit|contract|integration]
#              [THREADS] [WAITS] [TIMEOUT seconds])
# One GoogleTest program, ROOM_tests. Each of SRCS is a ctest entry, which runs
# in a process of its own and is named by its path: tests/solver/joint_test.cc
# is solver/joint_test, and `ctest -R ^solver/` runs the room. HELPERS are
# sources without tests. PROGRAMS are built beforehand; tests find them and
# their data through tests/support/paths.h, which every test program has.
#
# LABEL is unit by default; the target unit_tests, not all, builds the tests
# with that label. THREADS adds the label threads for the thread sanitizer; the target
# thread_tests builds those. WAITS marks tests that wait more than they compute:
# tests/run.sh runs two of these at once for each processor.
#
# Another call with the same ROOM adds sources, DEPS and PROGRAMS to its
# program. Give a definition that only one source needs to that source, because
# all test programs share a precompiled header:
#   set_source_files_properties(a_test.cc PROPERTIES COMPILE_DEFINITIONS X)
function(ucudnn_tests ROOM)
  cmake_parse_arguments(A "THREADS;WAITS" "LABEL;TIMEOUT"
    "SRCS;HELPERS;DEPS;PROGRAMS" ${ARGN})
  set(PROGRAM ${ROOM}_tests)
  ucudnn_test_program_(${PROGRAM})
  foreach(SOURCE ${A_SRCS})
    file(RELATIVE_PATH FILE ${PROJECT_SOURCE_DIR}/tests
         ${CMAKE_CURRENT_SOURCE_DIR}/${SOURCE})
    string(REGEX REPLACE "\\.cc$" "" ENTRY ${FILE})
    add_test(NAME ${ENTRY} COMMAND ${PROGRAM} --file=${FILE} --gtest_brief=1)
    ucudnn_test_properties_(${ENTRY})
  endforeach()
endfunction()

# ucudnn_test(NAME ...): the same, but with a single ctest entry NAME that runs
# the whole program NAME. For contract suites, and for tests that replace
# functions of the whole process.
function(ucudnn_test NAME)
  cmake_parse_arguments(A "THREADS;WAITS" "LABEL;TIMEOUT"
    "SRCS;HELPERS;DEPS;PROGRAMS" ${ARGN})
  ucudnn_test_program_(${NAME})
  add_test(NAME ${NAME} COMMAND ${NAME} --gtest_brief=1)
  ucudnn_test_properties_(${NAME})
endfunction()

# ucudnn_test_sources(TARGET): compiles a library of tests like test programs,
# with the header that ucudnn_test_main precompiles. Tests are not optimised,
# because compiling them would take longer than running them saves.
function(ucudnn_test_sources TARGET)
  # GCC requires the same options wherever a precompiled header is used, but
  # only some of the libraries that tests link add them.
  target_compile_options(${TARGET} PRIVATE -O0 -pthread -UFMT_SHARED)
  if(NOT "${TARGET}" STREQUAL ucudnn_test_main)
    target_precompile_headers(${TARGET} REUSE_FROM ucudnn_test_main)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(${TARGET} PRIVATE -fpch-preprocess) # for ccache
  else()
    target_compile_options(${TARGET} PRIVATE -Xclang -fno-pch-timestamp)
  endif()
endfunction()

# The program of the A_* arguments of the caller.
function(ucudnn_test_program_ PROGRAM)
  if(A_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tests of ${PROGRAM}: unknown: ${A_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT TARGET ${PROGRAM})
    add_executable(${PROGRAM} EXCLUDE_FROM_ALL)
    target_link_libraries(${PROGRAM} PRIVATE ucudnn_test_main)
    ucudnn_test_sources(${PROGRAM})
  endif()
  target_sources(${PROGRAM} PRIVATE ${A_SRCS} ${A_HELPERS})
  target_link_libraries(${PROGRAM} PRIVATE ${A_DEPS})
  if(A_PROGRAMS)
    add_dependencies(${PROGRAM} ${A_PROGRAMS})
  endif()
  if(NOT A_LABEL OR A_LABEL STREQUAL unit)
    add_dependencies(unit_tests ${PROGRAM})
  else()
    set_target_properties(${PROGRAM} PROPERTIES EXCLUDE_FROM_ALL OFF)
  endif()
  if(A_THREADS)
    add_dependencies(thread_tests ${PROGRAM})
  endif()
endfunction()

# The properties of its ctest entries.
function(ucudnn_test_properties_ ENTRY)
  if(NOT A_LABEL)
    set(A_LABEL unit)
  endif()
  if(A_THREADS)
    list(APPEND A_LABEL threads)
  endif()
  if(NOT A_TIMEOUT)
    set(A_TIMEOUT 600)
  endif()
  if(A_WAITS)
    set(SLOTS 1)
  else()
    set(SLOTS 2)
  endif()
  # OpenMP's threads spin at barriers, which slows a busy machine down.
  set_tests_properties(${ENTRY} PROPERTIES
    LABELS "${A_LABEL}" TIMEOUT ${A_TIMEOUT} PROCESSORS ${SLOTS}
    ENVIRONMENT OMP_WAIT_POLICY=passive)
endfunction()

# ucudnn_test_on_old_gpu(TEST PROGRAM [ARGUMENT...]): the same test once more, on
# the fakes of cuDNN 8.9 and of CUDA 11.4's driver.
function(ucudnn_test_on_old_gpu TEST PROGRAM)
  get_test_property(${TEST} ENVIRONMENT ENVIRONMENT)
  get_test_property(${TEST} LABELS LABELS)
  list(REMOVE_ITEM LABELS threads)
  set(LIB ${PROJECT_BINARY_DIR}/lib)
  list(APPEND ENVIRONMENT
    LD_LIBRARY_PATH=${LIB}/fake_old/as_9:${LIB}/fake_old:${LIB}/fake_nvml_r470)
  add_test(NAME ${TEST}_on_old_gpu
    COMMAND ${PROGRAM} ${ARGN} --gtest_brief=1)
  set_tests_properties(${TEST}_on_old_gpu PROPERTIES
    LABELS "${LABELS}" TIMEOUT 600 PROCESSORS 2 ENVIRONMENT "${ENVIRONMENT}")
  add_dependencies(${PROGRAM} fake_old)
endfunction()
