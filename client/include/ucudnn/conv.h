#ifndef UCUDNN_CONV_H_
#define UCUDNN_CONV_H_

/* Planned convolutions, and normalizations fused with what follows them, as C
 * functions, for programs that bring the stream, the
 * operands and the workspace. They are in the library ucudnn_conv, which needs
 * neither MPI nor gRPC; CUDA and cuDNN are loaded when a GPU is opened.
 *
 *   ucudnn_conv_device* device = NULL;
 *   ucudnn_conv* conv = NULL;
 *   if (ucudnn_conv_open_gpu(stream, 0, &device) != 0 ||
 *       ucudnn_conv_plan(device, "forward-c3-h224w224-k64-r7s7-pad3x3-str2x2-"
 *                        "dil1x1-g1-FP32-NCHW", 256, 64 << 20, &conv) != 0) {
 *     fprintf(stderr, "%s\n", ucudnn_conv_last_error());
 *   }
 *   ... allocate ucudnn_conv_workspace(conv) bytes on the device
 *   ucudnn_conv_run(conv, stream, x, w, y, 1.0f, 0.0f, workspace, size);
 *   ucudnn_conv_free(conv);
 *   ucudnn_conv_close(device);
 *
 * A plan divides the batch of one convolution into micro-batches, each with the
 * algorithm that is fastest within the workspace limit, by the methods of Oyama
 * et al., "Accelerating Deep Learning Frameworks with Micro-batches", CLUSTER
 * 2018. Algorithms are cuDNN's of both its APIs or oneDNN's, measured on the
 * device; those that are less exact than others are not used. Measurements are
 * kept in $UCUDNN_CACHE_DIR/conv, else $XDG_CACHE_HOME/ucudnn/conv, else
 * $HOME/.cache/ucudnn/conv. UCUDNN_BATCH_SIZE_POLICY ("adaptive"),
 * UCUDNN_DETERMINISTIC and UCUDNN_VERBOSE work as docs/guide/drop-in.md says.
 *
 * Each function that returns int returns 0, or one of these statuses, and
 * ucudnn_conv_last_error() then says what is wrong:
 *    3  an argument is malformed
 *    4  another process of the machine measures the same for too long
 *    5  an algorithm that was planned is gone
 *    8  out of memory, of the host or the device
 *    9  nothing fits into the workspace limit, and the text names the least
 *       that would do, or for an undivided batch if less was not measured; or
 *       no CUDA context is current
 *   12  the device has no algorithm for the problem, or does not fuse it
 *   13  a bug in ucudnn, cuDNN or oneDNN
 *   14  there is no such device: no driver, no cuDNN, or not in this build
 *   15  the GPU is lost to this process
 *
 * Any thread may call any function, also at once; calls on one device wait for
 * each other. Sizes are in bytes, times in microseconds (us). */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* NOLINTBEGIN(modernize-use-using): C */
typedef struct ucudnn_conv_device ucudnn_conv_device;
typedef struct ucudnn_conv ucudnn_conv;
/* NOLINTEND(modernize-use-using) */

/* "1.2": while the first number stays, functions are only added. Static. */
const char* ucudnn_conv_version(void);

/* Why the last call of this thread that failed did so. Valid until the next
 * one fails; never NULL. */
const char* ucudnn_conv_last_error(void);

/* The least workspace limit in bytes that would have done, if that call
 * returned 9 and it is known; otherwise -1. Since version 1.2. */
int64_t ucudnn_conv_last_least(void);

/* Opens the GPU whose CUDA context is current in this thread; if `stream` (a
 * cudaStream_t; may be NULL) belongs to a green context, that slice of it. The
 * context must outlive the device. With `deterministic` not 0, plans use only
 * algorithms that return the same bits each time. */
int ucudnn_conv_open_gpu(void* stream, int deterministic,
                         ucudnn_conv_device** device);
/* Opens this machine's CPU with `threads` threads; 0: one for each core. */
int ucudnn_conv_open_cpu(int threads, ucudnn_conv_device** device);

/* The device's kind: what measurements are valid for. Lives with the device. */
const char* ucudnn_conv_device_kind(const ucudnn_conv_device* device);

/* Closes the device once its last convolution and normalization were freed;
 * NULL is ignored. */
void ucudnn_conv_close(ucudnn_conv_device* device);

/* Plans `problem`, in the text form above (operation, channels, input, filters,
 * filter, padding, stride, dilation, groups, precision and layout), for `batch`
 * images within `workspace_limit`, and prepares it. Takes seconds where it has
 * to measure, with operands and a workspace of its own beside the program's.
 * Not while a stream is captured. */
int ucudnn_conv_plan(ucudnn_conv_device* device, const char* problem,
                     int64_t batch, int64_t workspace_limit,
                     ucudnn_conv** conv);

/* Plans `count` problems whose workspaces take at most `total_workspace`
 * together, for the least total time. On failure all `convs` are NULL. */
int ucudnn_conv_divide(ucudnn_conv_device* device, const char* const* problems,
                       const int64_t* batches, size_t count,
                       int64_t total_workspace, ucudnn_conv** convs);

/* What ucudnn_conv_run needs, in bytes. */
int64_t ucudnn_conv_workspace(const ucudnn_conv* conv);
/* The plan's time as measured, and that of the fastest undivided algorithm
 * within the same limit, in us; the latter is 0 if none fits, or after
 * ucudnn_conv_divide. */
double ucudnn_conv_time_us(const ucudnn_conv* conv);
double ucudnn_conv_undivided_us(const ucudnn_conv* conv);
/* The plan for people, such as "2 × 128, ALGO_1". Lives with `conv`. */
const char* ucudnn_conv_text(const ucudnn_conv* conv);

/* Enqueues out = alpha * op(a, b) + beta * out on `stream`:
 *   forward          a = input,           b = filter,          out = output
 *   backward_data    a = output gradient, b = filter,          out = input
 *   backward_filter  a = input,           b = output gradient, out = filter
 * where out of a backward operation is the gradient of what is named. Tensors
 * are packed in the problem's layout, aligned to 16 bytes on GPUs. The
 * workspace is aligned to 64 bytes on CPUs and 256 on GPUs, and must not be
 * used otherwise until the work is done. Neither allocates on
 * the device nor waits for it, so the stream may be being captured, with any
 * alpha and beta that ran before, 1 and 0 always. On a CPU `stream` is NULL,
 * and the work is done on return. */
int ucudnn_conv_run(ucudnn_conv* conv, void* stream, const void* a,
                    const void* b, void* out, float alpha, float beta,
                    void* workspace, int64_t workspace_size);

/* NULL is ignored. On a GPU its work must be done. */
void ucudnn_conv_free(ucudnn_conv* conv);

#ifdef __cplusplus
}
#endif

#endif /* UCUDNN_CONV_H_ */
