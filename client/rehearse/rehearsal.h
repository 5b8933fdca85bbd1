#ifndef UCUDNN_CLIENT_REHEARSE_REHEARSAL_H_
#define UCUDNN_CLIENT_REHEARSE_REHEARSAL_H_

// A rehearsal by all ranks of MPI_COMM_WORLD.

#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/units.h"
#include "client/config/variables.h"
#include "client/ranks/ranks.h"
#include "client/rehearse/report.h"
#include "client/session/session.h"

namespace ucudnn::rehearse {

struct Options {
  // What a job would request; the network's layers are filled in.
  SessionOptions session;
  std::string coordinator;   // empty: UCUDNN_COORDINATOR
  std::string network;       // its name
  std::string network_file;  // to register; empty: already registered
  int iterations = 10;
  bool check = false;
  double tolerance = 0;  // 0: the default for the precision
  bool compare_undivided = false;
  Bytes graph_memory = kDefaultGraphMemory;  // of the plan; 0: enqueue it
  int cpu_devices = 0;                       // 0: as many as ranks on the node
  int threads = 0;  // per part; 0: an even share of the cores
};

// Collective: OK if all ranks succeeded so far; else the first rank's error, on
// all.
Status Together(Ranks& ranks, const Status& mine);

// Collective. Every rank opens its device, agrees on the plan, and checks and
// measures its part; rank 0 prints progress to standard error. All ranks return
// the same report or the same error: those of Session::Create, of reading the
// network, and of the devices; kUnavailable if there is nothing to run.
Result<Report> Rehearse(Ranks& ranks, const Options& options);

}  // namespace ucudnn::rehearse

#endif  // UCUDNN_CLIENT_REHEARSE_REHEARSAL_H_
