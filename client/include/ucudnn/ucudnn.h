/* The C interface of libucudnn, usable from any language and compiler. Stable
 * within a major version of the library (its SONAME): functions and constants
 * are added, never changed; structures begin with their size.
 *   #include <ucudnn/mpi.h>            // includes this header
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
 * pointer where an object is needed is UCUDNN_INVALID_ARGUMENT; a function that
 * returns no status then returns 0, "" or null (ucudnn_session_rank: -1).
 *
 * Returned texts are UTF-8. They belong to the object that returned them and
 * are valid until it changes (ucudnn_session_refresh) or ends.
 *
 * An object is used by one thread at a time.
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
  UCUDNN_UNKNOWN = 2,           /* a library failed without a reason */
  UCUDNN_INVALID_ARGUMENT = 3,  /* an argument is malformed */
  UCUDNN_DEADLINE_EXCEEDED = 4, /* time ran out: a rank is lost or late */
  UCUDNN_NOT_FOUND = 5,         /* the named object does not exist */
  UCUDNN_ALREADY_EXISTS = 6,
  UCUDNN_PERMISSION_DENIED = 7,
  UCUDNN_RESOURCE_EXHAUSTED = 8,  /* memory, disk or quota ran out */
  UCUDNN_FAILED_PRECONDITION = 9, /* no plan satisfies the constraints */
  UCUDNN_ABORTED = 10,
  UCUDNN_OUT_OF_RANGE = 11,
  UCUDNN_UNIMPLEMENTED = 12, /* not supported by this build or device */
  UCUDNN_INTERNAL = 13,      /* a bug in the library */
  UCUDNN_UNAVAILABLE = 14, /* MPI failed, or a call before broke the session */
  UCUDNN_DATA_LOSS = 15,
  UCUDNN_UNAUTHENTICATED = 16
};

/* What a status means: "INVALID_ARGUMENT: ...". Never null; static. Thread
 * safe. */
UCUDNN_API const char* ucudnn_strerror(int status);

typedef struct ucudnn_session ucudnn_session;
typedef struct ucudnn_options ucudnn_options;

/* The message of the last call on this session that failed, or "". With NULL:
 * of this thread's last call that failed without a session, such as
 * ucudnn_session_init. Never null; valid until the next such failure. */
UCUDNN_API const char* ucudnn_last_error_message(const ucudnn_session* session);

/* The least that would have done of what was limited, such as bytes of
 * workspace, if that call returned UCUDNN_FAILED_PRECONDITION and it is known;
 * otherwise -1. */
UCUDNN_API int64_t ucudnn_last_error_least(const ucudnn_session* session);

/* The library's version, such as "0.1.0". Static. */
UCUDNN_API const char* ucudnn_version(void);

/* -------------------------------------------------------------- options */

/* What to plan a job for. The options may be destroyed once the session
 * exists. */
UCUDNN_API int ucudnn_options_create(ucudnn_options** options);
UCUDNN_API void ucudnn_options_destroy(ucudnn_options* options);

/* Sets one option; setting it again replaces the value. All ranks must set the
 * same options, except `device`. Each environment variable below supplies the
 * value of its option if that is not set; rank 0's environment counts.
 * UCUDNN_INVALID_ARGUMENT, naming what is accepted, if the name is unknown or
 * the value malformed. Times are in milliseconds; sizes are bytes or such as
 * "64MiB".
 *
 *   batch                  images of the mini-batch, over all ranks; required
 *   network                the network's name; default: the one in the file.
 *                          It or one of the next two is required
 *   network_file           a CSV or ONNX file with its convolutions
 *   network_csv            the text of such a CSV file
 *   precision              FP32 (default), TF32, TRUE_HALF, PSEUDO_HALF or BF16
 *   layout                 NCHW (default) or NHWC
 *   workspace_limit        for each kernel, such as "64MiB" (default);
 *                          UCUDNN_WORKSPACE_LIMIT
 *   total_workspace        for all kernels together; default: no such limit;
 *                          UCUDNN_TOTAL_WORKSPACE_SIZE
 *   memory_budget          plans whole iterations within so much of each rank's
 *                          device memory, instead of kernels within a
 *                          workspace: "6GiB", or one for each rank,
 *                          "6GiB,2GiB"; 0: all that the device has. Needs a
 *                          coordinator or a plan file. As does each of:
 *   memory_policy          best (default) or another one of docs/memory.md
 *   recompute              1: activations may be computed again; 0 (default)
 *   offload_weights        1: weights may live on the host; 0 (default)
 *   momentum               1: updates keep one for each weight; 0 (default)
 *   batch_policy           powerOfTwo (default), all, undivided, or adaptive
 *                          (measures only the sizes that plans need);
 *                          UCUDNN_BATCH_SIZE_POLICY
 *   max_error              the largest error that algorithms may have,
 *                          relative to the largest element of a result, such
 *                          as 1e-3; default: what rounding in the precision
 *                          explains, such as 1e-5 for FP32
 *   coordinators           "host:port,..."; UCUDNN_COORDINATOR
 *   plan_file              a plan to use; UCUDNN_PLAN_FILE. It must be
 *                          readable; one for another job is passed over
 *   cache_dir              where plans are kept; UCUDNN_CACHE_DIR
 *   auto_replan            1: adopt plans that the coordinator proposes by
 *                          itself; 0 (default): people accept them;
 *                          UCUDNN_AUTO_REPLAN
 *   job_name               shown to people; default: the network's name
 *   device                 this rank's device:
 *                            "auto" (default): the GPU of the current CUDA
 *                              context; else a GPU that no other rank of the
 *                              node has; else a share of the node's CPU
 *                            "gpu:N", a GPU's UUID, "cpu" or "cpu:THREADS"
 *   ask_within_ms          how long to try to reach a coordinator; 5000
 *   await_measurements_ms  how long to wait for missing measurements; 0
 *   agree_within_ms        how long ranks wait for each other; 60000
 */
UCUDNN_API int ucudnn_options_set(ucudnn_options* options, const char* name,
                                  const char* value);

/* -------------------------------------------------------------- session */

/* ucudnn_session_init (ucudnn/mpi.h) creates a session and
 * ucudnn_session_finalize ends it. If the job has no plan from where it asked
 * for one, rank 0 says so in one line on stderr. All ranks of its communicator
 * must make collective calls in the same order. Such a call has the same
 * outcome on all ranks and returns within the stated bound even if a rank is
 * lost: UCUDNN_DEADLINE_EXCEEDED, naming the rank if it is on this node. After
 * that, the session only accepts ucudnn_session_finalize, which is quick, and
 * the program should exit without MPI_Finalize, which would wait for the lost
 * rank. */

UCUDNN_API int ucudnn_session_rank(const ucudnn_session* session);
UCUDNN_API int ucudnn_session_size(const ucudnn_session* session);
/* This rank's images of each mini-batch; 0 if the rank is left out. */
UCUDNN_API int64_t ucudnn_session_batch(const ucudnn_session* session);
/* The index of this rank's first image in the mini-batch of all ranks. */
UCUDNN_API int64_t ucudnn_session_first_image(const ucudnn_session* session);
/* batch / global batch: the factor for this rank's gradients, which are means
 * over its own images, when they are summed over the ranks.
 * ucudnn_session_allreduce applies it. */
UCUDNN_API double ucudnn_session_weight(const ucudnn_session* session);
UCUDNN_API int64_t ucudnn_session_global_batch(const ucudnn_session* session);
/* The predicted time of one step, in milliseconds: on this rank, and on the
 * slowest rank: of convolutions only, or, if ranks have memory plans, of whole
 * iterations. 0 if nothing was measured. */
UCUDNN_API double ucudnn_session_predicted_ms(const ucudnn_session* session);
UCUDNN_API double ucudnn_session_predicted_step_ms(
    const ucudnn_session* session);
/* 1 at first; changes whenever ucudnn_session_refresh adopts a plan. */
UCUDNN_API int64_t ucudnn_session_revision(const ucudnn_session* session);

/* "plan file", "coordinator", "cache" or "undivided". */
UCUDNN_API const char* ucudnn_session_source(const ucudnn_session* session);
/* Where the plan comes from and why no better one is used; one line. */
UCUDNN_API const char* ucudnn_session_reason(const ucudnn_session* session);
/* How the last gradients were summed, and why not by NCCL; one line, empty
 * before the first sum. Valid until the next sum. */
UCUDNN_API const char* ucudnn_session_sum_method(const ucudnn_session* session);
/* Further remarks on the plan, one line each; for example, that ranks share a
 * GPU. Null if there is no note `index`. */
UCUDNN_API const char* ucudnn_session_note(const ucudnn_session* session,
                                           size_t index);
/* The job's id in `ucudnn show job`. */
UCUDNN_API const char* ucudnn_session_job_id(const ucudnn_session* session);
/* The id and the kind of this rank's device. */
UCUDNN_API const char* ucudnn_session_device(const ucudnn_session* session);
UCUDNN_API const char* ucudnn_session_device_kind(
    const ucudnn_session* session);
/* The plan of all ranks, as `ucudnn show plan -o json` prints it; "" if memory
 * runs out. */
UCUDNN_API const char* ucudnn_session_plan_json(ucudnn_session* session);

/* This rank's memory plan, as `ucudnn solve memory -o json` prints it, with its
 * training graph as "graph"; "" if it has none: the rank has no images, the job
 * did not ask for one (memory_budget), there is no coordinator
 * (ucudnn_session_source: "undivided"), or memory runs out. It needs
 * "peak_bytes" of device memory, one range, in which blocks lie at the offsets
 * of their events.
 *
 * An execution of it is safe, whatever its tasks and copies take, if it keeps
 * this order. "resident" blocks have their contents before the first round.
 * Rounds run one after the other, each "count" times; before each, the images
 * and labels of its part are loaded. In a round, the events are gone through as
 * they are listed:
 *
 *   compute            enqueue the task on the stream "compute" (updates of
 *                      the host: on a thread of theirs), in "parts" if it has
 *                      them, with its workspace at the event's offset
 *   offload, prefetch  enqueue a copy of the block to the host, or back, on a
 *                      stream of its own for each "stream" that is named
 *   sync, alloc, free  enqueue nothing; alloc tells where a block lies until
 *                      its free
 *   "after"            before what is enqueued, let its stream wait for each
 *                      of these events: an event that enqueues nothing has
 *                      ended when those before it on its stream, and those
 *                      that it waits for, have
 *
 * Weight gradients add up over rounds. If the job has several ranks, they are
 * summed before the first task whose kind is "update". */
UCUDNN_API const char* ucudnn_session_memory_plan(
    const ucudnn_session* session);

/* A kernel that this rank runs: one operation of one layer. */
typedef struct ucudnn_kernel {
  size_t struct_size; /* sizeof(ucudnn_kernel), set by the caller */
  const char* layer;
  const char* op;        /* forward, backward_data, backward_filter */
  const char* precision; /* FP32, ... */
  const char* layout;
  const char* problem;     /* the convolution, as one text; may be empty */
  int64_t workspace_bytes; /* the largest of its micro-batches */
  int64_t offset_bytes;    /* of its segment in the shared arena; -1: none */
  double time_us;          /* 0 if not measured */
  size_t micro_batches;
} ucudnn_kernel;

/* `count` executions on `batch` images each, one after the other; a kernel's
 * micro-batches run in the order of their index. */
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
/* Fills `*kernel`, whose struct_size the caller sets to sizeof(ucudnn_kernel)
 * before each call. Its texts belong to the session. UCUDNN_INVALID_ARGUMENT if
 * struct_size is not set, UCUDNN_OUT_OF_RANGE if there is no such kernel or
 * micro-batch.
 *
 * Later versions append fields to these structures. A library fills only the
 * fields that the caller's structure has room for; a caller built for a newer
 * library finds the fields that this one does not know set to zero. On return,
 * struct_size is the number of bytes filled, so
 *   offsetof(ucudnn_kernel, FIELD) < kernel.struct_size
 * says whether the library knows FIELD. */
UCUDNN_API int ucudnn_session_kernel(const ucudnn_session* session,
                                     size_t index, ucudnn_kernel* kernel);
UCUDNN_API int ucudnn_session_micro_batch(const ucudnn_session* session,
                                          size_t kernel, size_t index,
                                          ucudnn_micro_batch* micro_batch);

/* Reports how long this rank's last step took: from its first image to its last
 * gradient, without waiting for other ranks. Takes well under a microsecond,
 * allocates nothing and waits for nothing; a thread of the session sends the
 * times to the coordinator in batches. UCUDNN_INVALID_ARGUMENT if negative or
 * not finite. */
UCUDNN_API int ucudnn_session_report_step(ucudnn_session* session,
                                          double milliseconds);

/* Collective, between two steps: adopts the newest plan that `ucudnn replan`
 * made for the job, on all ranks or on none. `*changed` becomes 1 or 0;
 * `changed` may be null. A plan that a rank's device cannot run is rejected.
 * Returns within agree_within_ms; costs one reduction of eight bytes if there
 * is no new plan. UCUDNN_DEADLINE_EXCEEDED if a rank does not call it in time,
 * UCUDNN_UNAVAILABLE after that or if MPI fails. */
UCUDNN_API int ucudnn_session_refresh(ucudnn_session* session, int* changed);

enum { UCUDNN_FLOAT32 = 0, UCUDNN_FLOAT64 = 1 };

/* Collective: gradients, an array of `count` values of `type`, are multiplied
 * by the rank's weight and summed over the ranks, in place and on every rank.
 * Means over each rank's images thus become means over the whole mini-batch. A
 * rank without images contributes zeros, whatever its array holds. The arrays
 * may be in host memory on some ranks and in GPU memory on others; GPU arrays
 * are summed through host memory. The default stream, and with it every stream
 * that it waits for, is awaited first.
 *
 * Returns within agree_within_ms. UCUDNN_INVALID_ARGUMENT on all ranks if
 * counts or types differ, or if one rank's type is unknown; otherwise errors as
 * ucudnn_session_refresh, and errors of the GPU. After an error the arrays hold
 * no usable values. */
UCUDNN_API int ucudnn_session_allreduce(ucudnn_session* session,
                                        void* gradients, size_t count,
                                        int type);
/* The same for gradients that `stream`, a CUstream or cudaStream_t (null: the
 * default stream), produces: only that stream is awaited. The sums are complete
 * when the call returns, for any stream. */
UCUDNN_API int ucudnn_session_allreduce_device(ucudnn_session* session,
                                               void* gradients, size_t count,
                                               int type, void* stream);

/* Collective: ends the job, reports its end to the coordinator and frees the
 * session, also when it returns an error; ucudnn_last_error_message(NULL) then
 * has the message. Returns within agree_within_ms and five seconds. Null is
 * ignored. */
UCUDNN_API int ucudnn_session_finalize(ucudnn_session* session);

/* NOLINTEND(modernize-use-using,readability-identifier-naming) */

#ifdef __cplusplus
}
#endif

#endif /* UCUDNN_UCUDNN_H_ */
