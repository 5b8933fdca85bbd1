// The coordinator's daemon: reads its options, opens its database, and serves
// gRPC and HTTP until it is asked to stop.

#include <malloc.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <tuple>

#include "base/files/file.h"
#include "base/service/address.h"
#include "base/service/backoff.h"
#include "base/service/completion.h"
#include "base/service/config_file.h"
#include "base/service/environment.h"
#include "base/service/help.h"
#include "base/service/log.h"
#include "base/service/rate_limit.h"
#include "base/service/signals.h"
#include "base/service/supervisor.h"
#include "coordinator/coordinator.h"
#include "coordinator/dispatcher.h"
#include "coordinator/health.h"
#include "coordinator/limits.h"
#include "coordinator/metrics.h"
#include "coordinator/rest/page.h"
#include "coordinator/rest/server.h"
#include "coordinator/rpc/server.h"
#include "coordinator/security/guard.h"
#include "coordinator/security/tls_memory.h"
#include "coordinator/store/sqlite_lock.h"

namespace ucudnn {
namespace {

constexpr char kDefaultDatabase[] = "sqlite:///var/lib/ucudnn/coordinator.db";

struct Options {
  std::string listen = "127.0.0.1:7460";
  std::string http = "127.0.0.1:7461";
  std::string probes;  // empty: together with REST
  std::string database = kDefaultDatabase;
  bool create = false;  // other SQLite databases than the default
  std::string log_level = "info";
  std::string ready_file;
  std::string ui_dir;
  GuardFiles guard;
  bool insecure = false;
  CoordinatorOptions coordinator;
};

// Tells scripts the ports. Written once both are served.
Status WriteReadyFile(const std::string& path, int grpc_port, int http_port,
                      int probe_port) {
  Status written =
      ReplaceFile(path, fmt::format("{{\"grpc_port\":{},\"http_port\":{},"
                                    "\"probe_port\":{}}}\n",
                                    grpc_port, http_port, probe_port));
  if (!written) return Within("--ready-file", std::move(written).error());
  return {};
}

void TellHealth(const Status& ready, RpcServer& rpc) {
  rpc.SetServing(ready.has_value());
  if (ready) {
    spdlog::info("event=ready");
  } else {
    spdlog::error("event=not_ready code={} why={}",
                  CodeName(ready.error().code), Quoted(ready.error().message));
  }
}

// Ends the process if it does not end by itself in time: calls may wait for a
// database that does not answer. Nothing acknowledged is lost by that.
void EndWithin(std::chrono::seconds limit) {
  std::thread([limit] {
    std::this_thread::sleep_for(limit);
    spdlog::warn("event=stopped_with_calls_running");
    std::_Exit(0);
  }).detach();
}

// Null without TLS, which only this host may go without.
Result<std::unique_ptr<Guard>> OpenGuard(const Options& options) {
  const GuardFiles& files = options.guard;
  if (!files.ca.empty() && !files.cert.empty() && !files.key.empty()) {
    return Guard::Open(files);
  }
  if (files != GuardFiles()) {
    return Fail(Code::kInvalidArgument,
                "--ca, --cert and --key are accepted together, and --revoked "
                "and --tokens with them");
  }
  for (const auto& [name, address] : {std::pair{"--listen", &options.listen},
                                      std::pair{"--http", &options.http},
                                      std::pair{"--probes", &options.probes}}) {
    if (options.insecure || address->empty() || IsLoopback(*address)) continue;
    return Fail(Code::kInvalidArgument,
                "{} is {}, where everybody who reaches it could do everything; "
                "give --ca, --cert and --key for TLS, or --insecure",
                name, *address);
  }
  return nullptr;
}

// As many open files as the system grants: each connection takes one.
void RaiseOpenFiles() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &files) != 0) return;
  spdlog::info("event=open_files limit={}", files.rlim_cur);
}

// Has glibc keep freed memory instead of giving it back to the system. SQLite
// makes and frees a temporary table for each row of an UPDATE ... FROM; getting
// its pages anew each time took two fifths of the CPU time of a report.
void KeepFreeMemory() {
  constexpr int kMebibyte = 1 << 20;
  mallopt(M_TRIM_THRESHOLD, 4 * kMebibyte);
  // Larger blocks are mapped and always given back. glibc adapts this limit
  // only while neither is set.
  mallopt(M_MMAP_THRESHOLD, kMebibyte);
}

// Applies what may change while serving; says what has to wait for a restart.
void Reconfigure(const Result<Options>& wanted, const Options& running,
                 Coordinator& coordinator) {
  if (!wanted) {
    spdlog::error("event=reload_failed error={}",
                  Quoted(wanted.error().message));
    return;
  }
  for (const auto& [name, now, then] :
       {std::tuple{"listen", &wanted->listen, &running.listen},
        std::tuple{"http", &wanted->http, &running.http},
        std::tuple{"probes", &wanted->probes, &running.probes},
        std::tuple{"database", &wanted->database, &running.database},
        std::tuple{"ca", &wanted->guard.ca, &running.guard.ca},
        std::tuple{"cert", &wanted->guard.cert, &running.guard.cert},
        std::tuple{"key", &wanted->guard.key, &running.guard.key},
        std::tuple{"revoked", &wanted->guard.revoked, &running.guard.revoked},
        std::tuple{"tokens", &wanted->guard.tokens, &running.guard.tokens}}) {
    if (*now == *then) continue;
    spdlog::warn("event=reload_ignored setting={} why={}", name,
                 Quoted("it changes with a restart"));
  }
  CoordinatorOptions options = wanted->coordinator;
  options.version = running.coordinator.version;
  options.database = running.coordinator.database;
  options.grpc_port = running.coordinator.grpc_port;
  coordinator.context.Reconfigure(std::move(options));
  spdlog::set_level(spdlog::level::from_str(wanted->log_level));
  spdlog::info("event=reloaded");
}

// `reread` reads the options anew.
Status Serve(Options options, const std::function<Result<Options>()>& reread) {
  // The database and whatever else is written holds what only we may read.
  umask(077);
  const StopSignals signals({SIGHUP});
  Supervisor supervisor(ProcessEnvironment());
  StartLog("ucudnn-coord", options.log_level);
  RaiseOpenFiles();
  KeepFreeMemory();
  if (!SaveTlsMemory()) spdlog::warn("event=tls_memory_not_saved");
  UCUDNN_ASSIGN_OR_RETURN(const std::unique_ptr<Guard> guard,
                          OpenGuard(options));
  UCUDNN_ASSIGN_OR_RETURN(
      const std::unique_ptr<SqliteLock> lock,
      SqliteLock::Take(options.database,
                       options.create || options.database == kDefaultDatabase));
  Metrics metrics;
  UCUDNN_ASSIGN_OR_RETURN(
      const std::unique_ptr<Store> store,
      OpenStore(options.database, [&](bool write, auto took) {
        metrics.CountTransaction(write, took);
      }));
  options.coordinator.version = UCUDNN_VERSION;
  options.coordinator.database =
      options.database.substr(0, options.database.find(':'));
  const SystemClock clock;
  Coordinator coordinator(options.coordinator, *store, clock);
  Dispatcher dispatcher(coordinator, metrics,
                        guard == nullptr ? Guard::None() : *guard);
  UCUDNN_ASSIGN_OR_RETURN(const std::unique_ptr<RpcServer> rpc,
                          RpcServer::Start(options.listen, dispatcher));
  options.coordinator.grpc_port = rpc->port();
  coordinator.context.Reconfigure(options.coordinator);
  const auto ask = [&]() -> Status {
    UCUDNN_RETURN_IF_ERROR(rpc->Accepting());
    return store->CheckWritable();
  };
  const Health health(ask,
                      [&](const Status& ready) { TellHealth(ready, *rpc); });
  UCUDNN_ASSIGN_OR_RETURN(
      const std::unique_ptr<RestServer> rest,
      RestServer::Start(options.http, dispatcher, health,
                        {.files = BuiltPage(), .folder = options.ui_dir}));
  std::unique_ptr<RestServer> probes;
  if (!options.probes.empty()) {
    UCUDNN_ASSIGN_OR_RETURN(
        probes, RestServer::StartProbes(options.probes, dispatcher, health));
  }
  const int probe_port = probes == nullptr ? rest->port() : probes->port();
  spdlog::info(
      "event=serving grpc_port={} http_port={} probe_port={} database={} "
      "tls={}",
      rpc->port(), rest->port(), probe_port, options.coordinator.database,
      guard != nullptr);
  if (!options.ready_file.empty()) {
    UCUDNN_RETURN_IF_ERROR(WriteReadyFile(options.ready_file, rpc->port(),
                                          rest->port(), probe_port));
  }
  // In a thread of its own: the database may keep it waiting.
  std::jthread maintaining([&](const std::stop_token& stop) {
    RateLimit limit(1, 10'000);
    while (!stop.stop_requested()) {
      if (const Status maintained = coordinator.upkeep.Maintain();
          !maintained) {
        if (const auto left_out =
                limit.Allow("maintenance_failed", clock.SteadyMs())) {
          spdlog::warn("event=maintenance_failed error={} left_out={}",
                       Quoted(maintained.error().message), *left_out);
        }
      }
      Pause(stop, Milliseconds(options.coordinator.heartbeat_ms / 2));
    }
  });
  supervisor.Ready();
  while (true) {
    const std::optional<int> signal = signals.Next(std::chrono::seconds(1));
    if (signal && *signal != SIGHUP) break;
    if (signal) Reconfigure(reread(), options, coordinator);
    if (rpc->Accepting()) supervisor.Alive();
  }
  supervisor.Stopping();
  spdlog::info("event=stopping");
  EndWithin(kStopLimit);
  maintaining.request_stop();
  rpc->Stop();
  rest->Stop();
  if (probes != nullptr) probes->Stop();
  return {};
}

Result<std::string> ReadDatabaseUrl(const std::string& path) {
  UCUDNN_ASSIGN_OR_RETURN(std::string url, ReadSecret(path));
  while (!url.empty() && (url.back() == '\n' || url.back() == '\r')) {
    url.pop_back();
  }
  if (!CheckDatabaseUrl(url)) {
    return Fail(Code::kInvalidArgument,
                "{} does not hold one line with sqlite:///PATH or "
                "postgresql://...",
                path);
  }
  return url;
}

void AddSecurityOptions(CLI::App* daemon, Options* options) {
  const auto add = [&](const char* name, std::string* path, const char* help) {
    daemon->add_option(name, *path, help)->option_text("PATH");
  };
  add("--ca", &options->guard.ca,
      "Serve over TLS: the authority's certificate");
  add("--cert", &options->guard.cert, "This coordinator's certificate");
  add("--key", &options->guard.key, "Its private key, of mode 0600");
  add("--revoked", &options->guard.revoked, "A list of revoked certificates");
  add("--tokens", &options->guard.tokens,
      "A file of tokens' hashes, of mode 0600");
  daemon->add_flag("--insecure", options->insecure,
                   "Serve other hosts without TLS: everybody who reaches this "
                   "coordinator may do everything");
}

void AddRetentionOptions(CLI::App* daemon, KeepDays* keep) {
  const auto add = [&](const char* name, std::int64_t* days, const char* help) {
    daemon->add_option(name, *days, help)
        ->check(CLI::Range(std::int64_t{0}, kMaxKeepDays))
        ->option_text("DAYS");
  };
  add("--keep-tasks-days", &keep->tasks,
      "Delete failed, cancelled and outdated tasks after so long; 0: never");
  add("--keep-steps-days", &keep->steps,
      "Delete step times of ended jobs after so long; 0: never");
  add("--keep-plans-days", &keep->plans,
      "Delete plans that no job has and nobody asked for after so long; "
      "0: never");
  add("--keep-jobs-days", &keep->jobs,
      "Delete ended jobs after so long; 0: never");
}

struct CommandLine {
  CommandLine();

  Options options;
  std::string config;    // the file for serve
  std::string to_check;  // the file for check
  CLI::App app{"Stores measurements and serves the plans made from them."};
  CLI::App* daemon = nullptr;
};

CommandLine::CommandLine() {
  const CLI::Validator address(
      [](const std::string& text) {
        return IsHostAndPort(text, 0)
                   ? std::string()
                   : "host:port, such as 127.0.0.1:7460, is accepted";
      },
      "HOST:PORT");
  app.name("ucudnn-coord");
  app.set_version_flag("--version", UCUDNN_VERSION);
  ShowDefaults(app);
  daemon = app.add_subcommand("serve", "Serve until stopped");
  app.require_subcommand(1);
  AddConfigOption(daemon, &config);
  daemon
      ->add_option("--listen", options.listen,
                   "Serve gRPC here; port 0 takes a free one")
      ->check(address)
      ->option_text("HOST:PORT");
  daemon
      ->add_option("--http", options.http,
                   "Serve REST here; port 0 takes a free one")
      ->check(address)
      ->option_text("HOST:PORT");
  daemon
      ->add_option("--probes", options.probes,
                   "Serve /livez, /readyz and /metrics here too, where clients "
                   "of REST cannot hold them up; port 0 takes a free one")
      ->check(address)
      ->option_text("HOST:PORT");
  daemon
      ->add_option("--database", options.database,
                   "sqlite:///PATH, sqlite::memory: or postgresql://...")
      ->check(CLI::Validator(
          [](const std::string& url) {
            const Status checked = CheckDatabaseUrl(url);
            return checked ? std::string() : checked.error().message;
          },
          "URL"))
      ->option_text("URL");
  AddReadOption(
      daemon, "--database-file", &options.database, ReadDatabaseUrl,
      "A file of mode 0600 with that URL instead, if it has a password")
      ->option_text("PATH");
  daemon->add_flag("--create", options.create,
                   "Make the SQLite database if there is none; the default one "
                   "is always made");
  AddSecurityOptions(daemon, &options);
  const auto add_time = [&](const char* flag, auto* ms, const char* help,
                            int least, int most) {
    daemon->add_option(flag, *ms, help)->check(CLI::Range(least, most));
  };
  CoordinatorOptions& served = options.coordinator;
  constexpr int kDay = 86'400'000;
  add_time("--lease-ms", &served.lease_ms,
           "How long a lease of a task lasts without a heartbeat", 100, kDay);
  add_time("--heartbeat-ms", &served.heartbeat_ms,
           "How often agents send heartbeats", 50, 60'000);
  add_time("--agent-timeout-ms", &served.agent_timeout_ms,
           "How long a silent agent stays online", 100, kDay);
  add_time("--poll-after-ms", &served.poll_after_ms,
           "How long an idle device waits before it asks for work", 10, 60'000);
  add_time("--report-after-ms", &served.report_after_ms,
           "How often the ranks of jobs report step times", 10, 60'000);
  add_time("--job-timeout-ms", &served.job_timeout_ms,
           "How long a silent job stays running", 100, kDay);
  daemon
      ->add_option("--drift-tolerance", options.coordinator.drift_tolerance,
                   "Relative change of step time that counts as drift")
      ->check(NumberIn(0, 1000));
  AddRetentionOptions(daemon, &options.coordinator.keep);
  AddReadOption(daemon, "--measure-workspace",
                &options.coordinator.measure_workspace, ParseBytes,
                "Measure algorithms up to this workspace, or up to a request's "
                "larger limit")
      ->option_text("SIZE")
      ->default_str(FormatBytes(options.coordinator.measure_workspace));
  daemon
      ->add_option("--max-queued-measurements",
                   options.coordinator.max_queued_measurements,
                   "How many measurements may be queued at once; requests for "
                   "more are refused")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000'000}));
  daemon
      ->add_option("--max-queued-measurements-per-caller",
                   options.coordinator.max_queued_measurements_per_caller,
                   "The same for each caller, by certificate or token; callers "
                   "without share one number")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000'000}));
  daemon
      ->add_option("--max-job-ranks-per-caller",
                   options.coordinator.max_job_ranks_per_caller,
                   "Ranks of jobs that each caller may register in a day; "
                   "callers without certificate and token share one number")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000'000}));
  daemon
      ->add_option("--ready-file", options.ready_file,
                   "Write the ports to this file once both are served")
      ->option_text("PATH");
  daemon
      ->add_option("--ui-dir", options.ui_dir,
                   "Serve the page from this folder instead of the one built "
                   "in; for work on the page")
      ->check(CLI::ExistingDirectory)
      ->option_text("DIR");
  daemon
      ->add_option("--log-level", options.log_level,
                   "The least severe level to log")
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}));
  app.add_subcommand("check", "Check a file for --config without serving")
      ->add_option("FILE", to_check, "The TOML file")
      ->required()
      ->option_text("FILE");
}

// Parses the command line, and the file that it names; CLI11's complaints
// become errors.
Result<Options> Reread(int argc, char** argv) {
  std::unique_ptr<CommandLine> line;
  try {
    UCUDNN_RETURN_IF_ERROR(ParseOverConfig(argc, argv, &line));
  } catch (const CLI::ParseError& error) {
    return Fail(Code::kInvalidArgument, "{}", error.what());
  }
  return std::move(line->options);
}

Status Run(CommandLine& line, int argc, char** argv) {
  if (!line.to_check.empty()) {
    UCUDNN_RETURN_IF_ERROR(ReadConfigFile(line.to_check, *line.daemon));
    UCUDNN_RETURN_IF_ERROR(OpenGuard(line.options));
    fmt::print("{}: no errors found\n", line.to_check);
    return {};
  }
  return Serve(std::move(line.options),
               [argc, argv] { return Reread(argc, argv); });
}

int Main(int argc, char** argv) {
  return RunDaemon<CommandLine>(
      argc, argv, [&](CommandLine& line) { return Run(line, argc, argv); });
}

}  // namespace
}  // namespace ucudnn

int main(int argc, char** argv) { return ucudnn::Main(argc, argv); }
