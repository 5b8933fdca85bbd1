#ifndef UCUDNN_CLIENT_CLI_PROGRESS_H_
#define UCUDNN_CLIENT_CLI_PROGRESS_H_

// How far long work is, on standard error: a bar on a terminal, otherwise a
// plain line whenever another tenth is done.

#include <chrono>
#include <cstdint>
#include <string>

namespace ucudnn::ctl {

class Progress {
 public:
  // `what` says what is counted: "measured".
  Progress(std::string what, bool terminal);
  ~Progress() { End(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Show(std::int64_t done, std::int64_t total, const std::string& note);
  // A line of its own, above the bar.
  void Say(const std::string& line);
  void End();

 private:
  // "about 35 s left", once there is something to judge by.
  std::string Left(std::int64_t done, std::int64_t total) const;

  std::string what_;
  bool terminal_;
  bool open_ = false;  // a bar is on the line
  std::int64_t first_done_ = -1;
  std::int64_t last_tenth_ = -1;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace ucudnn::ctl

#endif  // UCUDNN_CLIENT_CLI_PROGRESS_H_
