#ifndef UCUDNN_BASE_TRAINING_BUILD_H_
#define UCUDNN_BASE_TRAINING_BUILD_H_

// The training graph of a network.
//
//   operator                      forward            backward
//   Conv, ConvTranspose, Gemm     X, W -> Y          X, dY -> dW; dY, W -> dX
//   Relu, Clip, LeakyRelu,        X -> Y, in place   Y, dY -> dX, in dY's block
//     Sigmoid, HardSigmoid, Tanh  where X allows it  unless others share it
//   HardSwish, Swish, Gelu, Mish  X -> Y             X, dY -> dX, likewise
//   BatchNormalization            X, W -> Y, S       X, dY, S, W -> dX, dW
//   MaxPool, LRN                  X -> Y             X, Y, dY -> dX
//   AveragePool, Resize, Pad,     X -> Y             dY -> dX
//     GlobalAveragePool, Slice,
//     ReduceMean, Transpose
//   Dropout                       X -> Y, M          dY, M -> dX
//   Add                           X1, X2 -> Y        none: errors share dY; of
//                                                    a smaller X2, dY -> dX2
//   Mul                           X1, X2 -> Y        X1, X2, dY -> dX1, dX2
//   Split                         X -> Y1, ...       dY1, ... -> dX
//   Concat                        X1, ... -> Y       dY -> dX1, ...
//   Flatten, Identity, Reshape    the same block     the same block
//   Constant, Shape, Gather, Unsqueeze, Slice, Cast, a Concat of shapes: none
//   loss (added)                  every output, labels -> its gradient
//
// An operand of Add or Mul may be a number. One of Mul may be computed without
// the model's inputs (stochastic depth), and is kept like a dropout's mask.
//
// An activation runs in place if nothing else reads X and the producer of X
// does not need it in its backward pass, as pooling does. W holds all
// parameters of a layer, with bias and running statistics. An update is
// dW, W -> W; with momentum V it is dW, W, V -> W, V.
//
// If a tensor has several readers, the first backward task writes its gradient
// and the others add to it; if another layer has yet to read the shared block,
// the sum goes to a new one. Weights that several layers share have one block,
// and one update, after the last gradient.

#include "base/graph.h"
#include "base/result.h"
#include "base/training/graph.h"

namespace ucudnn {

// How layers are counted.
enum class Fusion {
  kNone,   // as the model has them
  kPaper,  // as moDNN counts memory: a normalisation works in place on its
           // convolution's output, its error in that one's block, and a sum
           // in the block of one of its operands
};

struct TrainingOptions {
  Precision precision = Precision::kFp32;
  Fusion fusion = Fusion::kNone;
  // Each update reads and writes a persistent block of momentum.
  bool momentum = false;
  // Each update of a normalisation reads its layers' statistics, which run into
  // those that it keeps in W. They are those of the iteration's last round.
  bool running_statistics = false;
  // All updates follow the last backward task, in the order of the backward
  // pass, so that ranks can sum gradients meanwhile. Gradients live until then.
  bool updates_at_end = false;
};

// The graph's training iteration at its batch, without costs or device
// (base/training/costs.h). kUnimplemented, naming the node, for an operator
// that is not in the table or is used differently; kInvalidArgument if nothing
// is trained, or sizes are too large. O(nodes, edges).
Result<TrainingGraph> BuildTrainingGraph(const Graph& graph,
                                         const TrainingOptions& options);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_TRAINING_BUILD_H_
