#include "tests/support/highs_ilp.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <csignal>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace ucudnn::test {
namespace {

constexpr const char* kPython = "/usr/bin/python3";  // the one that has scipy
constexpr int kScaledBits = 10;

// The power of two that brings numbers up to `largest` to about a thousand.
double UnitOf(std::int64_t largest) {
  const auto bits =
      static_cast<int>(std::bit_width(static_cast<std::uint64_t>(largest)));
  return std::ldexp(1.0, std::max(0, bits - kScaledBits));
}

double Bound(std::int64_t value, double unit) {
  constexpr double kInfinity = std::numeric_limits<double>::max();
  if (value == kIlpUnbounded) return kInfinity;
  if (value == -kIlpUnbounded) return -kInfinity;
  return static_cast<double>(value) / unit;
}

nlohmann::json ToJson(const IlpProblem& problem, std::int64_t time_limit_ms) {
  nlohmann::json json;
  json["time_limit"] = static_cast<double>(time_limit_ms) / 1e3;
  std::int64_t largest_cost = 1;
  for (const IlpVariable& variable : problem.variables) {
    largest_cost = std::max(largest_cost, std::abs(variable.cost));
  }
  const double cost_unit = UnitOf(largest_cost);
  for (const IlpVariable& variable : problem.variables) {
    json["cost"].push_back(static_cast<double>(variable.cost) / cost_unit);
    json["integer"].push_back(variable.integer ? 1 : 0);
    json["least"].push_back(Bound(variable.least, 1));
    json["most"].push_back(Bound(variable.most, 1));
  }
  json["start"].push_back(0);
  for (const IlpRow& row : problem.rows) {
    std::int64_t largest = 1;
    for (const IlpTerm& term : row.terms) {
      largest = std::max(largest, std::abs(term.coefficient));
    }
    const double unit = UnitOf(largest);
    for (const IlpTerm& term : row.terms) {
      json["index"].push_back(term.variable);
      json["value"].push_back(static_cast<double>(term.coefficient) / unit);
    }
    json["start"].push_back(json["index"].size());
    json["row_least"].push_back(Bound(row.least, unit));
    json["row_most"].push_back(Bound(row.most, unit));
  }
  return json;
}

// A Python process that answers line by line.
class Server {
 public:
  Server() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
    process_ = fork();
    if (process_ == 0) {
      dup2(ends[1], STDIN_FILENO);
      dup2(ends[1], STDOUT_FILENO);
      execl(kPython, kPython, UCUDNN_HIGHS_SCRIPT, nullptr);
      _exit(127);
    }
    close(ends[1]);
    socket_ = ends[0];
  }
  ~Server() {
    if (socket_ >= 0)
      close(socket_);  // the process exits at the end of its input
    if (process_ > 0) waitpid(process_, nullptr, 0);
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  bool Send(const std::string& line) {
    for (std::size_t sent = 0; sent < line.size();) {
      const ssize_t n =
          send(socket_, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) return false;
      sent += static_cast<std::size_t>(n);
    }
    return true;
  }

  // The next line; empty at the end.
  std::optional<std::string> Receive() {
    std::size_t end = 0;
    while ((end = buffer_.find('\n')) == std::string::npos) {
      char bytes[1 << 16];
      const ssize_t n = read(socket_, bytes, sizeof(bytes));
      if (n <= 0) return std::nullopt;
      buffer_.append(bytes, static_cast<std::size_t>(n));
    }
    std::string line = buffer_.substr(0, end);
    buffer_.erase(0, end + 1);
    return line;
  }

 private:
  pid_t process_ = -1;
  int socket_ = -1;
  std::string buffer_;
};

class Highs final : public HighsSolver {
 public:
  bool ready() { return server_.Receive().has_value(); }

  std::string_view name() const override { return "HiGHS"; }
  double last_seconds() const override { return last_seconds_; }

  Result<IlpSolution> Solve(const IlpProblem& problem,
                            std::int64_t time_limit_ms) override {
    std::optional<std::string> line;
    if (server_.Send(ToJson(problem, time_limit_ms).dump() + "\n")) {
      line = server_.Receive();
    }
    if (!line.has_value()) return Fail(Code::kInternal, "HiGHS is gone");
    const auto answer = nlohmann::json::parse(*line, nullptr, false);
    if (answer.is_discarded()) {
      return Fail(Code::kInternal, "HiGHS says: {}", *line);
    }
    last_seconds_ = answer["seconds"].get<double>();
    const int status = answer["status"].get<int>();
    if (status == 2) {
      return Fail(Code::kFailedPrecondition, "HiGHS: no solution");
    }
    if (answer["values"].empty()) {
      return Fail(status == 1 ? Code::kDeadlineExceeded : Code::kInternal,
                  "HiGHS found no solution: status {}", status);
    }
    IlpSolution solution;
    solution.optimal = status == 0;
    solution.values = answer["values"].get<std::vector<double>>();
    for (std::size_t j = 0; j < solution.values.size(); ++j) {
      double& value = solution.values[j];
      if (problem.variables[j].integer) value = std::nearbyint(value);
    }
    solution.cost = CostOf(problem, solution.values);
    UCUDNN_RETURN_IF_ERROR(CheckIlp(problem, solution.values));
    return solution;
  }

 private:
  Server server_;
  double last_seconds_ = 0;
};

}  // namespace

std::unique_ptr<HighsSolver> MakeHighsSolver() {
  auto solver = std::make_unique<Highs>();
  if (!solver->ready()) return nullptr;
  return solver;
}

}  // namespace ucudnn::test
