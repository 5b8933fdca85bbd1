/* The C interface of libucudnn: what every program may use, whatever compiled
 * it. Stable within a major version of the library (its SONAME): functions and
 * constants are added, never changed; structures begin with their size.
 *
 *   #include <ucudnn/mpi.h>            // this header, and how MPI comes in
 *
 *   ucudnn_options* options = NULL;
 *   ucudnn_session* session = NULL;
 *   ucudnn_options_create(&options);
 *   ucudnn_options_set(options, "network_file", "resnet18.onnx");
 *   ucudnn_options_set(options, "batch", "256");
 *   int status = ucudnn_session_init(MPI_COMM_WORLD, options, &session);
 *   if (status != UCUDNN_OK) fail(ucudnn_last_error_message(NULL));
 *   int64_t images = ucudnn_session_batch(session);   // this rank's share
 *   while (training) {
 *     ...
 *     ucudnn_session_allreduce(session, gradients, count, UCUDNN_FLOAT32);
 *     ucudnn_session_report_step(session, milliseconds);
 *     int changed = 0;
 *     ucudnn_session_refresh(session, &changed);      // a new plan?
 *   }
 *   ucudnn_session_finalize(session);
 *   ucudnn_options_destroy(options);
 *
 * Functions that can fail return a status: UCUDNN_OK, or a code numbered as
 * gRPC's. Nothing throws, exits, aborts or waits without a bound. A null
 * pointer where an object is needed is UCUDNN_INVALID_ARGUMENT.
 *
 * Texts that are returned are UTF-8, belong to the object they come from, and
 * live until it changes (ucudnn_session_refresh) or ends.
 */
#ifndef UCUDNN_UCUDNN_H_
#define UCUDNN_UCUDNN_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define UCUDNN_API __attribute__((visibility("default")))
#else
#define UCUDNN_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* NOLINTBEGIN(modernize-use-using,readability-identifier-naming): C */

/* ------------------------------------------------------------- statuses */

enum {
  UCUDNN_OK = 0,
  UCUDNN_CANCELLED = 1,
  UCUDNN_UNKNOWN = 2,           /* a library failed without saying why */
  UCUDNN_INVALID_ARGUMENT = 3,  /* malformed, whatever the state */
  UCUDNN_DEADLINE_EXCEEDED = 4, /* time ran out: a rank is lost or late */
  UCUDNN_NOT_FOUND = 5,         /* what was named does not exist */
  UCUDNN_ALREADY_EXISTS = 6,
  UCUDNN_PERMISSION_DENIED = 7,
  UCUDNN_RESOURCE_EXHAUSTED = 8,  /* memory, disk or quota ran out */
  UCUDNN_FAILED_PRECONDITION = 9, /* no plan satisfies the constraints */
  UCUDNN_ABORTED = 10,
  UCUDNN_OUT_OF_RANGE = 11,
  UCUDNN_UNIMPLEMENTED = 12, /* not supported by this build or device */
  UCUDNN_INTERNAL = 13,      /* a fault of the library's */
  UCUDNN_UNAVAILABLE = 14, /* MPI failed, or the ranks could not agree before */
  UCUDNN_DATA_LOSS = 15,
  UCUDNN_UNAUTHENTICATED = 16
};

/* What a status means: "INVALID_ARGUMENT: ...". Never null; static. */
UCUDNN_API const char* ucudnn_strerror(int status);

typedef struct ucudnn_session ucudnn_session;
typedef struct ucudnn_options ucudnn_options;

/* What the last call that failed on this session said, empty if none did; with
 * NULL, the last call of this thread that failed and had no session. Never
 * null; lives until the next failure of the same kind. */
UCUDNN_API const char* ucudnn_last_error_message(const ucudnn_session* session);

/* The library's version, "0.1.0". */
UCUDNN_API const char* ucudnn_version(void);

/* -------------------------------------------------------------- options */

/* What a job is to be planned for. Used by one thread at a time; may be
 * destroyed once the session is made. */
UCUDNN_API int ucudnn_options_create(ucudnn_options** options);
UCUDNN_API void ucudnn_options_destroy(ucudnn_options* options);

/* Sets one option; the last value counts. All ranks give the same, but for
 * `device`. UCUDNN_INVALID_ARGUMENT, naming what is accepted, if the name or
 * the value is none.
 *
 *   batch                  images of the mini-batch, over all ranks; required
 *   network                the network's name; that of the file unless set
 *   network_file           its convolutions: CSV or ONNX
 *   network_csv            the same, as text of the CSV form
 *   precision              FP32 (unless set), TF32, TRUE_HALF, PSEUDO_HALF or
 *                          BF16
 *   layout                 NCHW (unless set), NHWC
 *   workspace_limit        of each kernel: "64MiB"; UCUDNN_WORKSPACE_LIMIT
 *   total_workspace        of all kernels; UCUDNN_TOTAL_WORKSPACE_SIZE
 *   batch_policy           all, powerOfTwo, undivided, adaptive (measures only
 *                          the sizes that plans need);
 *                          UCUDNN_BATCH_SIZE_POLICY
 *   coordinators           "host:port,..."; UCUDNN_COORDINATOR
 *   plan_file              UCUDNN_PLAN_FILE
 *   cache_dir              UCUDNN_CACHE_DIR
 *   job_name               for people; the network's name unless set
 *   device                 this rank's: "auto" (unless set): the GPU of the
 *                          CUDA context that is current, else one that no other
 *                          rank of the node has, else the rank's share of the
 *                          CPU; "gpu:N"; a GPU's UUID; "cpu"; "cpu:THREADS"
 *   ask_within_ms          for how long a coordinator is asked; 5000
 *   await_measurements_ms  for how long missing measurements are awaited; 0
 *   agree_within_ms        for how long ranks wait for each other; 60000
 */
UCUDNN_API int ucudnn_options_set(ucudnn_options* options, const char* name,
                                  const char* value);

/* -------------------------------------------------------------- session */

/* A session is made by ucudnn_session_init (ucudnn/mpi.h) and ended by
 * ucudnn_session_finalize. It belongs to one thread at a time. Calls that are
 * collective are made by all ranks of its communicator in the same order; they
 * have the same outcome on all ranks and return within the stated bounds, also
 * if a rank is lost: UCUDNN_DEADLINE_EXCEEDED then. After that the session is
 * good for nothing but ucudnn_session_finalize, which is quick, and the program
 * should end without MPI_Finalize, which would wait for the lost rank. */

UCUDNN_API int ucudnn_session_rank(const ucudnn_session* session);
UCUDNN_API int ucudnn_session_size(const ucudnn_session* session);
/* This rank's images of each mini-batch; 0: it is left out. */
UCUDNN_API int64_t ucudnn_session_batch(const ucudnn_session* session);
/* Where they begin in the mini-batch of all ranks. */
UCUDNN_API int64_t ucudnn_session_first_image(const ucudnn_session* session);
/* batch / global batch: by which this rank scales its gradients, means over
 * its own images, before they are summed over the ranks. */
UCUDNN_API double ucudnn_session_weight(const ucudnn_session* session);
UCUDNN_API int64_t ucudnn_session_global_batch(const ucudnn_session* session);
/* The convolutions of one step: on this rank, and on the slowest; 0 if nothing
 * was measured. */
UCUDNN_API double ucudnn_session_predicted_ms(const ucudnn_session* session);
UCUDNN_API double ucudnn_session_predicted_step_ms(
    const ucudnn_session* session);
/* 1, and another with each plan that ucudnn_session_refresh adopts. */
UCUDNN_API int64_t ucudnn_session_revision(const ucudnn_session* session);

/* "plan file", "coordinator", "cache" or "undivided". */
UCUDNN_API const char* ucudnn_session_source(const ucudnn_session* session);
/* Where the plan comes from, and why nothing better is used; one line. */
UCUDNN_API const char* ucudnn_session_reason(const ucudnn_session* session);
/* What else there is to know about the plan, each a line; for example that
 * ranks share a GPU. Null if there are not so many. */
UCUDNN_API const char* ucudnn_session_note(const ucudnn_session* session,
                                           size_t index);
/* By which `ucudnn show job` knows the job. */
UCUDNN_API const char* ucudnn_session_job_id(const ucudnn_session* session);
/* The id and the kind of this rank's device. */
UCUDNN_API const char* ucudnn_session_device(const ucudnn_session* session);
UCUDNN_API const char* ucudnn_session_device_kind(
    const ucudnn_session* session);
/* The plan of all ranks, as `ucudnn show plan -o json` prints it. */
UCUDNN_API const char* ucudnn_session_plan_json(ucudnn_session* session);

/* What this rank runs: one layer's one operation, its batch divided. */
typedef struct ucudnn_kernel {
  size_t struct_size; /* sizeof(ucudnn_kernel), set by the caller */
  const char* layer;
  const char* op;        /* forward, backward_data, backward_filter */
  const char* precision; /* FP32, ... */
  const char* layout;
  const char* problem;     /* the convolution, as one text; may be empty */
  int64_t workspace_bytes; /* the largest of its micro-batches */
  int64_t offset_bytes;    /* of its segment in a shared workspace; -1: none */
  double time_us;          /* 0 if not measured */
  size_t micro_batches;
} ucudnn_kernel;

/* `count` executions, one after the other, in this order. */
typedef struct ucudnn_micro_batch {
  size_t struct_size; /* sizeof(ucudnn_micro_batch), set by the caller */
  int64_t batch;
  int64_t count;
  const char* algorithm; /* as its library names it: "FFT_TILING" */
  const char* math;      /* "FMA", "DEFAULT", "TENSOR_OP"; may be empty */
  const char* precision; /* of the arithmetic */
  int64_t workspace_bytes;
  double time_us; /* of one execution */
} ucudnn_micro_batch;

UCUDNN_API size_t ucudnn_session_kernels(const ucudnn_session* session);
/* UCUDNN_OUT_OF_RANGE if there are not so many. */
UCUDNN_API int ucudnn_session_kernel(const ucudnn_session* session,
                                     size_t index, ucudnn_kernel* kernel);
UCUDNN_API int ucudnn_session_micro_batch(const ucudnn_session* session,
                                          size_t kernel, size_t index,
                                          ucudnn_micro_batch* micro_batch);

/* This rank's last step took so long: from its first image to its last
 * gradient, without what it waits for others. Takes well under a microsecond
 * and waits for nothing; the coordinator is told later, in batches. */
UCUDNN_API int ucudnn_session_report_step(ucudnn_session* session,
                                          double milliseconds);

/* Collective, between two steps: adopts the newest plan that `ucudnn replan`
 * has made for the job, on all ranks or on none. `changed` becomes 1 or 0.
 * Costs one reduction of eight bytes where there is nothing new. */
UCUDNN_API int ucudnn_session_refresh(ucudnn_session* session, int* changed);

enum { UCUDNN_FLOAT32 = 0, UCUDNN_FLOAT64 = 1 };

/* Collective: scales this rank's gradients, means over its own images, by its
 * weight and sums them over the ranks, into the means over the whole
 * mini-batch, on every rank. A rank without images counts as zeros, whatever it
 * holds. They may lie in memory of the host or of a GPU, which the driver
 * tells, and not on all ranks in the same. Those of a GPU go through pinned
 * memory of the host, or where MPI says that it takes a GPU's memory
 * (MPIX_Query_cuda_support) from GPU to GPU. UCUDNN_INVALID_ARGUMENT on all
 * ranks if their counts or types differ. After an error the gradients are of no
 * use. */
UCUDNN_API int ucudnn_session_allreduce(ucudnn_session* session,
                                        void* gradients, size_t count,
                                        int type);
/* The same, for gradients that are made in `stream`, a CUstream or cudaStream_t
 * (null: the default stream): waits for it; the sums are there when the call
 * returns. */
UCUDNN_API int ucudnn_session_allreduce_device(ucudnn_session* session,
                                               void* gradients, size_t count,
                                               int type, void* stream);

/* Collective: the job is over. Ends the session in any case, also if it
 * returns an error, which ucudnn_last_error_message(NULL) then tells. Null is
 * ignored. */
UCUDNN_API int ucudnn_session_finalize(ucudnn_session* session);

/* NOLINTEND(modernize-use-using,readability-identifier-naming) */

#ifdef __cplusplus
}
#endif

#endif /* UCUDNN_UCUDNN_H_ */
