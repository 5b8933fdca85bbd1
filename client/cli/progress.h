#ifndef UCUDNN_CLIENT_CLI_PROGRESS_H_
#define UCUDNN_CLIENT_CLI_PROGRESS_H_

// Shows the progress of long work on standard error: as a bar on a terminal,
// otherwise as a line for every tenth completed.

#include <chrono>
#include <cstdint>
#include <string>

namespace ucudnn::ctl {

class Progress {
 public:
  // `what` names what is counted, such as "measured".
  Progress(std::string what, bool terminal);
  ~Progress() { End(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Show(std::int64_t done, std::int64_t total, const std::string& note);
  // Prints a line of its own above the bar.
  void Say(const std::string& line);
  void End();

 private:
  // "about 35 s left", once there is enough progress to estimate from.
  std::string Left(std::int64_t done, std::int64_t total) const;

  std::string what_;
  bool terminal_;
  bool open_ = false;  // a bar is being shown
  std::int64_t first_done_ = -1;
  std::int64_t last_tenth_ = -1;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace ucudnn::ctl

#endif  // UCUDNN_CLIENT_CLI_PROGRESS_H_
