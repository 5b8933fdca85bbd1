#ifndef UCUDNN_BASE_SERVICE_COMPLETION_H_
#define UCUDNN_BASE_SERVICE_COMPLETION_H_

// Completion by shells. A shell's script runs `PROGRAM complete-words WORDS...`
// with what was typed after the program's name; a program's main function
// answers before it parses:
//
//   if (AnswerCompletion(app, argc, argv)) return 0;

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace ucudnn {

// The values of an option that the command line itself does not know, such as
// the names of networks.
using ValuesOf =
    std::function<std::vector<std::string>(const CLI::Option& option)>;

// What may complete the last of `words`: commands, long options, and values of
// options and positional arguments. Words may be split at "=", as bash does.
std::vector<std::string> Complete(const CLI::App& app,
                                  const std::vector<std::string>& words,
                                  const ValuesOf& values_of = nullptr);

// Whether the arguments ask for completion, which is then printed, a line for
// each word. It ends within two seconds, or ends the process.
bool AnswerCompletion(const CLI::App& app, int argc, const char* const* argv,
                      const ValuesOf& values_of = nullptr);

// The script of "bash", "zsh" or "fish" that completes all of our programs.
std::string_view CompletionScript(std::string_view shell);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_SERVICE_COMPLETION_H_
