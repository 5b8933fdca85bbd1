#ifndef UCUDNN_TESTS_CLIENT_C_API_SOLVE_ANSWER_H_
#define UCUDNN_TESTS_CLIENT_C_API_SOLVE_ANSWER_H_

// What a function of ucudnn/solve.h answers.

#include <string>

#include "ucudnn/solve.h"

namespace ucudnn::test {

struct Answer {
  int status = 0;
  std::string text;

  friend bool operator==(const Answer&, const Answer&) = default;
};

// Frees `text`, which may be null.
inline Answer Taken(int status, char* text) {
  Answer answer{status, text == nullptr ? "" : text};
  ucudnn_solve_free(text);
  return answer;
}

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_CLIENT_C_API_SOLVE_ANSWER_H_
