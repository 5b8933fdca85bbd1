#ifndef UCUDNN_TESTS_SUPPORT_PATHS_H_
#define UCUDNN_TESTS_SUPPORT_PATHS_H_

// The paths of test data and build products. They are functions, not macros:
// paths on the compiler's command line would keep build trees from sharing
// precompiled headers and cached objects.

#include <optional>
#include <string>

namespace ucudnn::test {

// A file of tests/data, e.g. "h200/alexnet_b256_pow2.csv".
std::string DataPath(const std::string& name);

// A file of public data sets that are not part of the repository, in the folder
// that UCUDNN_PUBLIC_DATA names: minimalloc/challenging of google/minimalloc,
// and gavel/ with measurements of stanford-futuredata/gavel as CSV. Absent if
// the variable is not set.
std::optional<std::string> PublicDataPath(const std::string& name);

// A script of deploy/, e.g. "certificates.sh".
std::string ScriptPath(const std::string& name);

// A program of this build, e.g. "ucudnn-agent".
std::string ProgramPath(const std::string& name);

// A shared library of this build, e.g. "libucudnn_preload.so".
std::string LibraryPath(const std::string& name);

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_SUPPORT_PATHS_H_
