/* Creates a libucudnn session (ucudnn/ucudnn.h) from an MPI communicator. A
 * separate header, so that programs without MPI need not have mpi.h. */
#ifndef UCUDNN_MPI_H_
#define UCUDNN_MPI_H_

#include <mpi.h>

#include "ucudnn/ucudnn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The library takes communicators as Fortran integers, which every MPI library
 * can convert to and from. */
UCUDNN_API int ucudnn_session_init_f(MPI_Fint comm,
                                     const ucudnn_options* options,
                                     ucudnn_session** session);
UCUDNN_API int ucudnn_session_active_comm_f(ucudnn_session* session,
                                            MPI_Fint* comm);

/* Creates the session of this rank. Collective over `comm`, which is
 * duplicated. Opens this rank's device and finds a plan: from the plan file,
 * the coordinator, the cache, or else undivided; all ranks agree on it. An
 * unavailable or slow coordinator delays the call by at most ask_within_ms and
 * never makes it fail; rank 0 then says in one line on stderr what the job runs
 * and why. Waits at most ask_within_ms, await_measurements_ms and,
 * for each plan that the ranks consider, agree_within_ms. `options` may be
 * destroyed afterwards.
 *
 * All ranks return UCUDNN_OK, or all return the same error, with the same text
 * in ucudnn_last_error_message(NULL); `*session` is then null:
 *   UCUDNN_INVALID_ARGUMENT     an option is malformed, ranks differ in one, no
 *                               network is named, or the plan file cannot be
 *                               read
 *   UCUDNN_NOT_FOUND            the coordinator does not know the network, of
 *                               which no option gives the layers
 *   UCUDNN_FAILED_PRECONDITION  a kernel does not fit into the limit even
 *                               undivided, or MPI is not initialised
 *   UCUDNN_DEADLINE_EXCEEDED    a rank did not take part in time
 *   UCUDNN_UNAVAILABLE          MPI failed
 *   UCUDNN_UNIMPLEMENTED, UCUDNN_RESOURCE_EXHAUSTED, ...
 *                               the device cannot be opened */
static inline int ucudnn_session_init(MPI_Comm comm,
                                      const ucudnn_options* options,
                                      ucudnn_session** session) {
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  /* Without MPI there is no communicator to convert. */
  return ucudnn_session_init_f(
      initialized && !finalized ? MPI_Comm_c2f(comm) : (MPI_Fint)0, options,
      session);
}

/* Collective. `*comm` becomes the communicator of the ranks that have images,
 * in rank order; MPI_COMM_NULL on the others. The session owns it; it is valid
 * until a refresh changes the plan. The first call after that creates it, later
 * ones return it. Errors and bound as ucudnn_session_refresh, with one
 * exception: if ranks are left out and MPI was not initialised with
 * MPI_THREAD_MULTIPLE, MPI can only create it by a blocking call, which hangs
 * if one of those ranks is lost during it. */
static inline int ucudnn_session_active_comm(ucudnn_session* session,
                                             MPI_Comm* comm) {
  MPI_Fint handle;
  int status = ucudnn_session_active_comm_f(session, &handle);
  if (status == UCUDNN_OK) *comm = MPI_Comm_f2c(handle);
  return status;
}

#ifdef __cplusplus
}
#endif

#endif /* UCUDNN_MPI_H_ */
