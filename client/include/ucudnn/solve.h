#ifndef UCUDNN_SOLVE_H_
#define UCUDNN_SOLVE_H_

/* The offline solvers as C functions: the answers of `ucudnn solve`, from text
 * to text, without files or a service. They are in the library ucudnn_solve,
 * which needs neither MPI nor gRPC.
 *
 *   ucudnn_solve_profile* profile = NULL;
 *   char* answer = NULL;
 *   int status = ucudnn_solve_profile_open(csv, csv_size, &profile, &answer);
 *   if (status == 0) {
 *     status = ucudnn_solve_profile_wr(profile,
 *         "{\"batch\":256,\"workspace_limit_bytes\":67108864}", &answer);
 *   }
 *   ... status == 0: answer is JSON; otherwise it says what is wrong
 *   ucudnn_solve_free(answer);
 *   ucudnn_solve_profile_close(profile);
 *
 * Each function returns 0 and the answer as JSON, or one of these statuses and
 * text that explains it, in one line unless stated otherwise:
 *    3  the input is malformed
 *    8  out of memory (the text may then be NULL)
 *    9  no plan satisfies the constraints; the text names the nearest that
 *       would do
 *   11  a number is out of range
 *   13  a bug in ucudnn
 * The caller frees the answer with ucudnn_solve_free. It is UTF-8 and ends with
 * a zero byte. Only opened profiles are kept between calls. Any number of
 * threads may call. Sizes are in bytes, times in microseconds (us). A call
 * computes on the calling thread; wr takes O(batch * rows) time for each
 * kernel.
 *
 * The `request` of the functions of a profile is a JSON object:
 *   batch                  the mini-batch size, in images
 *   workspace_limit_bytes  for each kernel; for wd, for all kernels together
 *   batch_policy           which micro-batch sizes to use: "all" (default),
 *                          "powerOfTwo", "undivided", or "adaptive" (every
 *                          measured size)
 *   device, network, layer, op, precision, layout
 *                          select rows of the profile, where it has several
 *                          values
 *   max_error              the largest error that algorithms may have, above 0
 *                          and below 1, relative to the largest element of a
 *                          result, as far as the profile has errors; default:
 *                          what rounding in the precision explains
 * An unknown field is an error.
 *
 * Batches and workspace are divided by the methods of Oyama et al.,
 * "Accelerating Deep Learning Frameworks with Micro-batches", CLUSTER 2018. */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* "1.0": the version of these functions and of their answers' fields. While the
 * first number stays, functions and fields are only added. Static. */
const char* ucudnn_solve_version(void);

/* The least that would have done of what was limited, in bytes of workspace, of
 * a budget or of a pool, if this thread's last call returned 9 and it is known;
 * otherwise -1. */
int64_t ucudnn_solve_last_least(void);

/* Frees an answer; NULL is ignored. */
void ucudnn_solve_free(char* answer);

/* Measurements that are parsed once for many calls, which do not change them:
 * any number of threads may use one profile. */
/* NOLINTNEXTLINE(modernize-use-using): C */
typedef struct ucudnn_solve_profile ucudnn_solve_profile;

/* Parses a profile as CSV (docs/guide/plans.md), not compressed, of
 * `profile_size` bytes. On success *opened is it, to be freed with
 * ucudnn_solve_profile_close, and *error is NULL; otherwise *opened is NULL,
 * and *error says what is wrong and is freed with ucudnn_solve_free. */
int ucudnn_solve_profile_open(const char* profile, size_t profile_size,
                              ucudnn_solve_profile** opened, char** error);

/* Frees a profile that no call uses any more; NULL is ignored. */
void ucudnn_solve_profile_close(ucudnn_solve_profile* profile);

/* WR: divides each kernel within its own workspace limit, for the least time.
 * Answer: {"batch":256,...,"kernels":[...]}, as `ucudnn solve wr -o json`
 * prints it. Here and below, `notes` are texts for people, such as that the
 * profile has no errors of algorithms; absent if there are none. */
int ucudnn_solve_profile_wr(const ucudnn_solve_profile* profile,
                            const char* request, char** answer);

/* WD: divides one workspace limit among all kernels, each with a segment of its
 * own, for the least total time. The answer has the same form. */
int ucudnn_solve_profile_wd(const ucudnn_solve_profile* profile,
                            const char* request, char** answer);

/* The Pareto front of one kernel: the divisions that no other beats in both
 * time and workspace, by increasing workspace. Answer:
 * {"front":[{"time_us":...,"workspace_bytes":...,"micro_batches":[...]}]}. */
int ucudnn_solve_profile_pareto(const ucudnn_solve_profile* profile,
                                const char* request, char** answer);

/* The time of all kernels under WR, for each mini-batch size up to `batch` that
 * can be divided within the limit. Answer:
 * {"times":[{"batch":1,"time_us":...}]}. */
int ucudnn_solve_profile_times(const ucudnn_solve_profile* profile,
                               const char* request, char** answer);

/* WS: divides mini-batches under one limit for an arena that the kernels of
 * `network`, an ONNX model, share where they never run at once. `request` has
 * the fields above, and network_name, the model's name ("network" unless
 * given): where `network` is not given and the profile has several, the rows of
 * this one are meant; and input_shapes, as of ucudnn_solve_memory. The answer
 * has the form of ucudnn_solve_profile_wr's, with an offset of each kernel, and
 * `notes`, texts for people. */
int ucudnn_solve_profile_ws(const ucudnn_solve_profile* profile,
                            const char* network, size_t network_size,
                            const char* request, char** answer);

/* Divides a mini-batch among unlike GPUs so that the slowest takes the least
 * time. `times` is CSV with the columns gpu, batch, and time_us or
 * ms_per_iteration; `request` has `batch` and, if the times are of several
 * models, `model`. Answer:
 * {"batch":96,"makespan_us":...,"gpus":[{"gpu":"v100","batch":64,...}]}. */
int ucudnn_solve_assign(const char* times, size_t times_size,
                        const char* request, char** answer);

/* Assigns offsets in one pool to buffers of known lifetimes, so that no two
 * buffers that are live at once overlap. `buffers` is CSV with the columns id,
 * lower, upper and size; a buffer is live in [lower, upper). `request` may have
 *   capacity_bytes  accept any pool of at most this size; default: find the
 *                   smallest pool
 *   time_limit_s    return the best answer so far after this time; default: 60
 *
 * Answer:
 * {"load":...,"pool":...,"lower_bound":...,"proven":true,
 *  "buffers":[{"id":"0","offset":0}]}. */
int ucudnn_solve_allocation(const char* buffers, size_t buffers_size,
                            const char* request, char** answer);

/* Plans one training iteration within a budget of device memory: what leaves
 * for the host and when it returns, the convolutions' algorithms, and every
 * block's address. `network` is an ONNX model or CSV (a chain of convolutions),
 * not compressed; it may contain zero bytes. `profile` holds measurements as
 * CSV; if it is NULL, all times are the device model's estimates. `request`:
 *   batch            images in an iteration; required
 *   device_model     "GTX970", "TITANX", "K40", "P100-NVLINK", "V100", "H200",
 *                    or an object with the fields of docs/memory.md; required
 *   budget_bytes     default: the device model's memory
 *   precision        "FP32" (default), "TF32", "TRUE_HALF", "PSEUDO_HALF" or
 *                    "BF16"
 *   policy           "best" (default), another of docs/memory.md, or "all"
 *   sub_batch        images per sub-batch; default: the policy's choice
 *   recompute        true: "best" may compute activations again instead of
 *                    keeping or moving them; default: false
 *   offload_weights  true: "best" may keep weights on the host; default: false
 *   gpus             that share the mini-batch, 1 (default) to 64; the plan is
 *                    for one of them; more than 1 with "modnn" only
 *   allocator        "policy" (default): addresses as the policy's own memory
 *                    manager assigns them; "static": all lifetimes are known
 *   fuse             "none" (default), or "paper": normalisations in place
 *   split            "DEPTH,H,W[,stochastic]": another network, computed in
 *                    parts of the image; a profile needs all problems of
 *                    its convolutions
 *   time_limit_s     ends searches; default: 60. A plan whose search ended
 *                    so has "cut_off":true: another may find a faster one
 *   network_name     in the answer; default: "network"
 *   input_shapes     ["3,224,224"] or ["INPUT=3,224,224",...]: sizes besides
 *                    the batch of inputs whose model leaves them open
 *   profile_network, device, layout
 *                    select rows of the profile, where it has several values;
 *                    without profile_network, those of network_name count if
 *                    there are any
 *   max_error        as above
 * Answer: the plan as `ucudnn solve memory -o json` prints it (docs/memory.md),
 * with the training graph as its field "graph"; for "all",
 * {"plans":[...],"graph":{...}}, where a policy without a plan has
 * "feasible":false and the reason. Status 9 if there is no plan; the text names
 * a budget that would do, a line for each policy. A policy takes from some 10
 * ms (VGG-16) to half a second (ResNet-152), "best" possibly longer. */
int ucudnn_solve_memory(const char* network, size_t network_size,
                        const char* profile, size_t profile_size,
                        const char* request, char** answer);

/* Divides a mini-batch among unlike GPUs of limited memory, of which each
 * trains its share under a memory plan, so that the slowest takes the least
 * time. `request` has the fields of ucudnn_solve_memory but device_model,
 * budget_bytes, sub_batch and gpus; `batch` is shared. Besides:
 *   gpus  an array of objects, one for each GPU; required:
 *           device_model  as above; required
 *           budget_bytes  default: the device model's memory
 *           profile       measurements on it, as text; default: estimates
 *           name          in the answer; default: the device model's
 *   step  shares are multiples of so many images; default: 1
 * Answer: {"batch":256,"makespan_us":...,"lower_bound_us":...,"cut_off":false,
 *  "gpus":[{"gpu":"K40","batch":96,"why":"...","plan":0,...}],"plans":[...]};
 * `plan` is an index into `plans`, whose elements are as of
 * ucudnn_solve_memory. The makespan is the least for the policy's plans where
 * it equals the lower bound; otherwise time_limit_s ended the search. Takes the
 * time of a bound for each batch and kind of GPU, and of a few plans. */
int ucudnn_solve_joint_memory(const char* network, size_t network_size,
                              const char* request, char** answer);

/* Checks a memory plan, or those of policy "all" or of several GPUs: whether
 * every execution of it is safe whatever its durations, rests on the right
 * data, and is what its sums say (docs/memory.md). `plan` is an answer of
 * ucudnn_solve_memory or ucudnn_solve_joint_memory; `graph` is its training
 * graph, or NULL if the plan has it as its field "graph". Answer:
 * {"plans":[{"policy":...,"events":...,"time_us":...,"peak_bytes":...}]}.
 * Status 3 names the field that is malformed, or the rule that a plan breaks
 * and where. */
int ucudnn_solve_check_memory_plan(const char* plan, size_t plan_size,
                                   const char* graph, size_t graph_size,
                                   char** answer);

/* Plans a training step that a framework recorded: which saved tensors stay on
 * the device, which leave for the host and return, and which are computed again
 * (solver/memory/recorded_step.h; ucudnn.torch.memory records PyTorch's).
 * Hooks, which save a tensor or need one back, cut the step into segments, one
 * more than there are hooks. `step`:
 *   segments  [{"time_us":...,"bytes":...,"backward":false}]; bytes are those
 *             besides the tensors
 *   tensors   [{"bytes":...,"hook":...,"held":...,"uses":[...]}] by the hook
 *             that saves each; `held` is the last segment in which other code
 *             holds it, or 0, `uses` are the segments that need it. Optional:
 *             "recipe":{"time_us":...,"bytes":...,"reads":[...]}, by which it
 *             can be computed again from earlier tensors
 *   link      {"d2h_bytes_per_us":...,"h2d_bytes_per_us":...}; optional:
 *             latency_us, duplex (default: true)
 * `request`: budget_bytes, required; offload and recompute (default: true);
 * time_limit_s (default: 60). Answer: {"time_us":...,"ideal_time_us":...,
 *  "lower_bound_us":...,"cut_off":false,"peak_bytes":...,
 *  "plain_peak_bytes":...,
 *  "moved_bytes":...,"actions":[{"hook":...,"action":"copy","tensor":...}]},
 * where actions are copy, free, fetch, recompute and drop, in the order in
 * which hooks run them. Status 9 names the least budget. A step of 1000
 * segments takes a few seconds. */
int ucudnn_solve_recorded_step(const char* step, size_t step_size,
                               const char* request, char** answer);

/* Shares a mini-batch among unlike devices by the times of whole training
 * steps, so that the slowest takes the least time. `step` is what `ucudnn steps
 * put` takes (docs/steps.md): times and peaks, or recorded steps, by kind and
 * batch. `request`:
 *   batch         images; required
 *   device_kinds  the kind of each device, out of the step's; required
 *   all_ranks     every device gets images, and even shares are kept unless
 *                 others are 1 % faster (default: false)
 *   budget_bytes  of each device, 0 for any; default: as much as is needed
 *   recompute     recorded steps may compute tensors again (default: true)
 *   shares        the images of each device: tells what they take
 *   time_limit_s  default: 60
 * Answer: {"time_us":...,"lower_bound_us":...,"even_us":...,"cut_off":false,
 *  "ranks":[{"batch":...,"time_us":...,"lower_bound_us":...,"peak_bytes":...,
 *   "passes":1,"most":...}]}; even_us is absent where a device cannot have an
 * even share, peak_bytes is 0 where none is known, `most` is the largest share
 * that the device can have. Status 9 says what would do. */
int ucudnn_solve_step_shares(const char* step, size_t step_size,
                             const char* request, char** answer);

/* Checks a plan in the form of ucudnn_solve_profile_wr and `ucudnn solve -o
 * json`, and returns it in that form without unknown fields. Status 3 if a job
 * could not run it; the text names the field. */
int ucudnn_solve_read_plan(const char* plan, size_t plan_size, char** answer);

#ifdef __cplusplus
}
#endif

#endif /* UCUDNN_SOLVE_H_ */
