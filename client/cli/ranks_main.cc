#include "client/cli/ranks_main.h"

#include <mpi.h>

#include <cstdio>

#include "base/service/completion.h"
#include "base/service/help.h"
#include "client/cli/command.h"
#include "client/cli/server/completion.h"

namespace ucudnn::ctl {

int RunOnRanks(CLI::App& app, int argc, char** argv,
               const std::function<Status()>& body) {
  if (AnswerCompletion(app, argc, argv, NamesFrom("", {}, argc, argv)))
    return 0;
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  // All ranks have the same arguments; rank 0 reports errors in them.
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int status =
        rank == 0 ? EndParsing(app, error, argc, argv) : error.get_exit_code();
    MPI_Finalize();
    return status == 0 ? 0 : 2;
  }
  const Status status = body();
  if (status) {
    MPI_Finalize();
    return 0;
  }
  int code = ExitStatus(status);
  // Ranks that could not agree cannot finalize MPI together either.
  const bool apart = status.error().code == Code::kDeadlineExceeded;
  if (rank == 0 || apart) {
    std::fprintf(stderr, "%s: %s\n", app.get_name().c_str(),
                 OneLine(status.error().message).c_str());
  }
  if (apart) MPI_Abort(MPI_COMM_WORLD, code);
  // A signal may have come to one rank alone.
  MPI_Allreduce(MPI_IN_PLACE, &code, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Finalize();
  return code;
}

}  // namespace ucudnn::ctl
