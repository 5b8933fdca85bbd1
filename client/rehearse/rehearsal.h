#ifndef UCUDNN_CLIENT_REHEARSE_REHEARSAL_H_
#define UCUDNN_CLIENT_REHEARSE_REHEARSAL_H_

// What the ranks of a rehearsal do together, over MPI_COMM_WORLD.

#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/units.h"
#include "client/ranks/ranks.h"
#include "client/rehearse/report.h"
#include "client/session/session.h"

namespace ucudnn::rehearse {

struct Options {
  // What a job would ask for; the network's layers are found out.
  SessionOptions session;
  std::string coordinator;   // empty: UCUDNN_COORDINATOR
  std::string network;       // its name
  std::string network_file;  // registered under the name; empty: known already
  int iterations = 10;
  bool check = false;
  double tolerance = 0;  // 0: the precision's
  bool compare_undivided = false;
  int cpu_devices = 0;  // 0: as many as ranks on the node
  int threads = 0;      // of each; 0: an even share of the cores
};

// All ranks go on, or all of them return the first error.
Status Together(Ranks& ranks, const Status& mine);

// Collective. Every rank opens its device, agrees on the plan, and checks and
// measures its part of it; progress goes to rank 0's standard error. All ranks
// have the same report or the same error: those of Session::Create, of reading
// the network, and of the devices; kUnavailable if there is nothing to run.
Result<Report> Rehearse(Ranks& ranks, const Options& options);

}  // namespace ucudnn::rehearse

#endif  // UCUDNN_CLIENT_REHEARSE_REHEARSAL_H_
