#ifndef UCUDNN_DEVICE_ONEDNN_CONVOLUTION_H_
#define UCUDNN_DEVICE_ONEDNN_CONVOLUTION_H_

// One oneDNN implementation prepared to run on packed tensors within a
// workspace.
//
// The workspace holds, each at a multiple of 64 bytes: a copy of every operand
// that the implementation wants in another format than the caller's, for
// backward_filter always a copy of the result (it must add up), and oneDNN's
// scratchpad. The copies are made in every run and are part of its time.
//
// Forward and backward_data that write the caller's tensor directly have no
// place to hold a result that is still to be scaled and added. With alpha
// other than 1 or beta other than 0 they go image by image through a buffer of
// one image that the Convolution owns, allocated when first needed.

#include <memory>

#include "device/device.h"
#include "device/onednn/implementations.h"
#include "device/onednn/runtime.h"

namespace ucudnn::onednn {

// The workspace that ListAlgorithms reports and the convolution needs.
Bytes WorkspaceOf(const ConvProblem& problem, BatchSize batch,
                  const Implementation& implementation);

// `runtime` must outlive the result.
Result<std::unique_ptr<Convolution>> MakeConvolution(
    const Runtime& runtime, const ConvProblem& problem, BatchSize batch,
    const Implementation& implementation);

// The filter gradient by oneDNN's reference implementation, a slice of the
// filters at a time, so that it needs no workspace: it accumulates in a buffer
// of its own of at most 64 KiB (or one filter, if that is larger). The fallback
// when memory is short. kResourceExhausted if the system has no memory for it.
Result<std::unique_ptr<Convolution>> MakeSlicedFilterGradient(
    const Runtime& runtime, const ConvProblem& problem, BatchSize batch);

// The checks of Run for both: kInvalidArgument if the workspace is smaller
// than `needed` or not aligned to 64 bytes, or an operand is missing.
Status CheckAlignedRun(const ConvArgs& args, const void* workspace,
                       Bytes workspace_size, Bytes needed);

}  // namespace ucudnn::onednn

#endif  // UCUDNN_DEVICE_ONEDNN_CONVOLUTION_H_
