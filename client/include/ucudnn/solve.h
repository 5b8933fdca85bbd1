#ifndef UCUDNN_SOLVE_H_
#define UCUDNN_SOLVE_H_

/* The offline solvers as C functions: what `ucudnn solve` answers, from text
 * to text, without files or a service. Library ucudnn_solve, which needs
 * neither MPI nor gRPC.
 *
 *   char* answer = NULL;
 *   int status = ucudnn_solve_wr(csv, csv_size,
 *       "{\"batch\":256,\"workspace_limit_bytes\":67108864}", &answer);
 *   ... status == 0: answer is JSON; otherwise it says what is wrong
 *   ucudnn_solve_free(answer);
 *
 * Each function returns 0 and the answer as JSON, or an error's number and one
 * line of text that explains it: 3 the input is malformed, 9 no plan satisfies
 * the constraints, 11 a number is out of range, 8 memory ran out (the text may
 * then be NULL), 13 a fault of ours. The answer is the caller's to free. It is
 * UTF-8 and ends in a zero byte. Nothing is kept between calls; any number of
 * threads may call.
 *
 * `profile` is CSV as the files of the README's "Plans from files alone" are,
 * not compressed, and `profile_size` its bytes. `request` is a JSON object:
 *   batch                  the mini-batch
 *   workspace_limit_bytes  of each kernel; for wd, of all together
 *   batch_policy           "all" (unless given), "powerOfTwo", "undivided",
 *                          "adaptive" (of what was measured, all)
 *   device, network, layer, op, precision, layout
 *                          which rows of the profile are meant, where it has
 *                          several
 * A field that is not known is an error. */

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The numbers of this header's functions and of their answers' fields: only
 * added to as long as the first of "1.2" stays. */
const char* ucudnn_solve_version(void);

void ucudnn_solve_free(char* answer);

/* A workspace limit for each kernel: {"batch":256,...,"kernels":[...]}, as
 * `ucudnn solve wr -o json` prints it. */
int ucudnn_solve_wr(const char* profile, size_t profile_size,
                    const char* request, char** answer);

/* One limit for all kernels: the same form. */
int ucudnn_solve_wd(const char* profile, size_t profile_size,
                    const char* request, char** answer);

/* One kernel's divisions that none beats in both time and workspace:
 * {"front":[{"time_us":...,"workspace_bytes":...,"micro_batches":[...]}]}. */
int ucudnn_solve_pareto(const char* profile, size_t profile_size,
                        const char* request, char** answer);

/* How long all kernels take under wr, for every mini-batch up to `batch` that
 * can be divided under the limit: {"times":[{"batch":1,"time_us":...}]}. */
int ucudnn_solve_times(const char* profile, size_t profile_size,
                       const char* request, char** answer);

/* Shares a mini-batch among unlike GPUs. `times` is CSV with the columns gpu,
 * batch and time_us or ms_per_iteration; `request` has `batch` and, where the
 * times are of several models, `model`:
 * {"batch":96,"makespan_us":...,"gpus":[{"gpu":"v100","batch":64,...}]}. */
int ucudnn_solve_assign(const char* times, size_t times_size,
                        const char* request, char** answer);

/* Gives buffers of known lifetimes offsets in one pool, so that no two overlap
 * that are live at once. `buffers` is CSV with the columns id, lower, upper and
 * size: live from lower until before upper. `request` may have
 *   capacity_bytes  a pool within it is enough; otherwise the smallest is sought
 *   time_limit_s    after which the best so far is the answer; 60 unless given
 * {"load":...,"pool":...,"lower_bound":...,"proven":true,
 *  "buffers":[{"id":"0","offset":0}]}. Since version 1.1. */
int ucudnn_solve_allocation(const char* buffers, size_t buffers_size,
                            const char* request, char** answer);

/* Reads a plan as ucudnn_solve_wr answers it and `ucudnn solve -o json` prints
 * it, and gives it back in that form, without fields that are not known. 3 if
 * it is none that a job may run: the text names the field. Since 1.1. */
int ucudnn_solve_read_plan(const char* plan, size_t plan_size, char** answer);

#ifdef __cplusplus
}
#endif

#endif /* UCUDNN_SOLVE_H_ */
