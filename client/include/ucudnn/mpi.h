/* How a session of libucudnn (ucudnn/ucudnn.h) is made from a communicator of
 * MPI, in a header of its own so that programs without MPI need none. */
#ifndef UCUDNN_MPI_H_
#define UCUDNN_MPI_H_

#include <mpi.h>

#include "ucudnn/ucudnn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The library takes communicators as Fortran's integers, which all MPI
 * libraries have. */
UCUDNN_API int ucudnn_session_init_f(MPI_Fint comm,
                                     const ucudnn_options* options,
                                     ucudnn_session** session);
UCUDNN_API int ucudnn_session_active_comm_f(ucudnn_session* session,
                                            MPI_Fint* comm);

/* Collective over `comm`, which is duplicated. Finds this rank's device, and a
 * plan: in the plan file, at the coordinator, in the cache, else undivided; all
 * ranks agree on it. A coordinator that is away or slow delays this by at most
 * ask_within_ms, and never makes it fail.
 *
 * All ranks return UCUDNN_OK, or the same status, and
 * ucudnn_last_error_message(NULL) says the same: UCUDNN_INVALID_ARGUMENT if
 * options are malformed or differ between ranks; UCUDNN_FAILED_PRECONDITION if
 * a kernel does not fit into the limit even undivided, or MPI is not
 * initialised; UCUDNN_DEADLINE_EXCEEDED if a rank takes no part within
 * agree_within_ms; UCUDNN_UNAVAILABLE if MPI fails. `*session` is null then. */
static inline int ucudnn_session_init(MPI_Comm comm,
                                      const ucudnn_options* options,
                                      ucudnn_session** session) {
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  /* Without MPI there are no communicators to convert. */
  return ucudnn_session_init_f(
      initialized && !finalized ? MPI_Comm_c2f(comm) : (MPI_Fint)0, options,
      session);
}

/* Collective: the ranks that have images, in rank order; MPI_COMM_NULL on the
 * others. Belongs to the session, until a refresh that changes the plan.
 * Returns within agree_within_ms, with one exception: where ranks are left out
 * and MPI was not initialised with MPI_THREAD_MULTIPLE, MPI makes it by a
 * blocking call, which follows an agreement and waits if one of these ranks is
 * lost within it. */
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
