#include <fmt/format.h>

#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "solver/ilp/ilp.h"

namespace ucudnn {
namespace {

// Readers of the format take lines of some hundred characters, and names of at
// most 255.
constexpr std::size_t kLine = 78;
constexpr std::size_t kName = 200;

// `number` in units of kIlpCostUnit: 1500 is 1.5.
std::string InCostUnits(std::int64_t number) {
  const std::int64_t size = std::abs(number);
  std::string text = fmt::format("{}{}.{:03}", number < 0 ? "-" : "",
                                 size / kIlpCostUnit, size % kIlpCostUnit);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

// Sections of the format, broken into lines.
class Lines {
 public:
  void Line(std::string_view text) {
    End();
    text_ += text;
    text_ += '\n';
  }
  void Word(std::string_view word) {
    if (line_.size() + 1 + word.size() > kLine) End();
    line_ += ' ';
    line_ += word;
  }
  void End() {
    if (line_.empty()) return;
    text_ += std::exchange(line_, {}) + '\n';
  }
  std::string Take() && { return std::move(text_); }

 private:
  std::string text_;
  std::string line_;
};

// Names of equal beginnings stay apart by their numbers.
std::string Valid(std::string name, char letter, std::size_t number) {
  if (name.empty()) return fmt::format("{}{}", letter, number + 1);
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.') c = '_';
  }
  if (name.size() <= kName) return name;
  return fmt::format("{}_{}{}", name.substr(0, kName), letter, number + 1);
}

void Term(std::string_view coefficient, const std::string& name, Lines* lines) {
  const bool negative = coefficient.front() == '-';
  const std::string_view size = coefficient.substr(negative ? 1 : 0);
  lines->Word(fmt::format("{} {}{}", negative ? '-' : '+',
                          size == "1" ? "" : fmt::format("{} ", size), name));
}

// `number` divided by `unit` and rounded towards the inside of a range that it
// ends.
std::int64_t Divided(std::int64_t number, std::int64_t unit, bool up) {
  const std::int64_t quotient = number / unit;
  const std::int64_t rest = number % unit;
  if (rest == 0) return quotient;
  if (up) return rest > 0 ? quotient + 1 : quotient;
  return rest < 0 ? quotient - 1 : quotient;
}

}  // namespace

std::string LpName(const IlpProblem& problem, std::size_t variable) {
  return Valid(problem.variables[variable].name, 'x', variable);
}

std::string LpText(const IlpProblem& problem, const std::string& title) {
  Lines lines;
  lines.Line("\\ " + title);
  lines.Line("Minimize");
  lines.Word("us:");
  for (std::size_t j = 0; j < problem.variables.size(); ++j) {
    const std::int64_t cost = problem.variables[j].cost;
    if (cost != 0) Term(InCostUnits(cost), LpName(problem, j), &lines);
  }
  lines.Line("Subject To");
  for (std::size_t i = 0; i < problem.rows.size(); ++i) {
    const IlpRow& row = problem.rows[i];
    if (row.terms.empty()) continue;
    std::int64_t unit = 0;
    bool integer = true;
    for (const IlpTerm& term : row.terms) {
      unit = std::gcd(unit, term.coefficient);
      integer = integer && problem.variables[term.variable].integer;
    }
    // A limit between two multiples is as good as the multiple that holds, but
    // for variables that are not whole.
    const auto divides = [&](std::int64_t limit) {
      return limit == kIlpUnbounded || limit == -kIlpUnbounded ||
             limit % unit == 0;
    };
    if (unit == 0 || (!integer && !(divides(row.least) && divides(row.most)))) {
      unit = 1;
    }
    const std::string name = Valid(row.name, 'r', i);
    const auto write = [&](std::string_view label, std::string_view relation,
                           std::int64_t limit, bool up) {
      lines.End();
      lines.Word(fmt::format("{}:", label));
      for (const IlpTerm& term : row.terms) {
        Term(fmt::to_string(term.coefficient / unit),
             LpName(problem, term.variable), &lines);
      }
      lines.Word(fmt::format("{} {}", relation, Divided(limit, unit, up)));
    };
    if (row.least == row.most && divides(row.least)) {
      write(name, "=", row.least, false);
      continue;
    }
    if (row.most != kIlpUnbounded) {
      write(name, "<=", row.most, false);
    }
    if (row.least != -kIlpUnbounded) {
      const bool both = row.most != kIlpUnbounded;
      write(name + (both ? "_least" : ""), ">=", row.least, true);
    }
  }
  lines.Line("Bounds");
  std::vector<std::size_t> binaries;
  std::vector<std::size_t> integers;
  for (std::size_t j = 0; j < problem.variables.size(); ++j) {
    const IlpVariable& variable = problem.variables[j];
    if (variable.integer && variable.least == 0 && variable.most == 1) {
      binaries.push_back(j);
      continue;
    }
    if (variable.integer) integers.push_back(j);
    lines.Line(fmt::format(" {} <= {}{}", variable.least, LpName(problem, j),
                           variable.most == kIlpUnbounded
                               ? ""
                               : fmt::format(" <= {}", variable.most)));
  }
  for (const auto& [section, members] :
       {std::pair("Generals", &integers), std::pair("Binaries", &binaries)}) {
    if (members->empty()) continue;
    lines.Line(section);
    for (const std::size_t j : *members) lines.Word(LpName(problem, j));
  }
  lines.Line("End");
  return std::move(lines).Take();
}

}  // namespace ucudnn
