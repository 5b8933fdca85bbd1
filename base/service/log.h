#ifndef UCUDNN_BASE_SERVICE_LOG_H_
#define UCUDNN_BASE_SERVICE_LOG_H_

// The daemons' log: one event per line on standard error, as key=value pairs
// after the time and the level.

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <string>

namespace ucudnn {

inline void StartLog(const std::string& program, const std::string& level) {
  auto logger = spdlog::stderr_logger_mt(program);
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e %L %n %v");
  logger->set_level(spdlog::level::from_str(level));
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace ucudnn

#endif  // UCUDNN_BASE_SERVICE_LOG_H_
