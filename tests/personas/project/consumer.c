/* An external C program that uses all of the session's interface. Prints a line
 * that begins with "ok" on every rank, or what went wrong. */
#include <stdio.h>
#include <string.h>
#include <ucudnn/mpi.h>

static const char kNetwork[] =
    "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups\n"
    "conv1,3,8,8,4,3,3,1,1,1,1,1\n"
    "conv2,4,8,8,4,3,3,1,1,1,1,1\n";

static int Failed(const char* what, int status, const ucudnn_session* session) {
  printf("%s: %s: %s\n", what, ucudnn_strerror(status),
         ucudnn_last_error_message(session));
  return 1;
}

#define TRY(call)                                        \
  do {                                                   \
    const int status_ = (call);                          \
    if (status_) return Failed(#call, status_, session); \
  } while (0)

static int Use(ucudnn_options* options) {
  ucudnn_session* session = NULL;
  double gradients[2];
  double weights = 0;
  size_t k = 0;
  size_t m = 0;
  int changed = -1;
  MPI_Comm active = MPI_COMM_NULL;
  TRY(ucudnn_options_set(options, "network", "consumer"));
  TRY(ucudnn_options_set(options, "network_csv", kNetwork));
  TRY(ucudnn_options_set(options, "batch", "5"));
  TRY(ucudnn_options_set(options, "device", "cpu:1"));
  if (ucudnn_options_set(options, "batch", "none") != UCUDNN_INVALID_ARGUMENT ||
      strstr(ucudnn_last_error_message(NULL), "batch") == NULL) {
    return Failed("a bad batch is accepted", 0, NULL);
  }
  TRY(ucudnn_session_init(MPI_COMM_WORLD, options, &session));
  /* Gradients of 1 on every rank have the mean 1. */
  gradients[0] = 1;
  gradients[1] = ucudnn_session_rank(session);
  TRY(ucudnn_session_allreduce(session, gradients, 2, UCUDNN_FLOAT64));
  if (gradients[0] < 0.999999 || gradients[0] > 1.000001) {
    return Failed("the mean of ones is not one", 0, session);
  }
  for (k = 0; k < ucudnn_session_kernels(session); ++k) {
    ucudnn_kernel kernel;
    long long images = 0;
    kernel.struct_size = sizeof(kernel);
    TRY(ucudnn_session_kernel(session, k, &kernel));
    for (m = 0; m < kernel.micro_batches; ++m) {
      ucudnn_micro_batch micro;
      micro.struct_size = sizeof(micro);
      TRY(ucudnn_session_micro_batch(session, k, m, &micro));
      images += micro.batch * micro.count;
    }
    if (images != ucudnn_session_batch(session)) {
      return Failed("a kernel does not cover the batch", 0, session);
    }
  }
  TRY(ucudnn_session_report_step(session, 1.5));
  TRY(ucudnn_session_refresh(session, &changed));
  TRY(ucudnn_session_active_comm(session, &active));
  weights = ucudnn_session_weight(session);
  printf(
      "ok rank %d of %d: batch %d, weight %.2f, %d kernels, changed %d, %s, "
      "%s\n",
      ucudnn_session_rank(session), ucudnn_session_size(session),
      (int)ucudnn_session_batch(session), weights, (int)k, changed,
      ucudnn_session_source(session), ucudnn_version());
  TRY(ucudnn_session_finalize(session));
  return 0;
}

int main(int argc, char** argv) {
  ucudnn_options* options = NULL;
  ucudnn_session* session = NULL;
  int failed;
  if (ucudnn_options_create(&options) != UCUDNN_OK) return 2;
  /* Without MPI, creating a session fails and does not crash. */
  if (ucudnn_session_init(MPI_COMM_NULL, options, &session) == UCUDNN_OK ||
      session != NULL) {
    return 3;
  }
  MPI_Init(&argc, &argv);
  failed = Use(options);
  ucudnn_options_destroy(options);
  if (failed) MPI_Abort(MPI_COMM_WORLD, 1);
  MPI_Finalize();
  return 0;
}
