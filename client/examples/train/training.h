#ifndef UCUDNN_CLIENT_EXAMPLES_TRAIN_TRAINING_H_
#define UCUDNN_CLIENT_EXAMPLES_TRAIN_TRAINING_H_

// A training by all ranks of MPI_COMM_WORLD: they agree on a plan, train on
// their shares of each mini-batch and sum gradients.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "client/examples/train/net.h"
#include "client/examples/train/report.h"
#include "client/ranks/ranks.h"
#include "client/session/session.h"

namespace ucudnn::train {

struct TrainOptions {
  // What a job would request; the network's layers are filled in.
  SessionOptions session;
  std::string net = "lenet";       // lenet, resnet18, or a chain's CSV file
  std::string data = "synthetic";  // or mnist:FOLDER, cifar10:FOLDER
  ImageExtent image{0, 0, 0};      // synthetic; 0: the network's default
  std::int64_t classes = 0;        // synthetic; 0: the network's default
  std::int64_t images = 4096;      // synthetic
  std::uint64_t seed = 1;
  std::int64_t steps = 100;
  double rate = 0.01;
  double momentum = 0.9;
  // Split the mini-batch evenly and plan each rank's part separately.
  bool even = false;
  // The checkpoint file, if any: saved every `checkpoint_every` steps and at
  // the end.
  std::string checkpoint;
  std::int64_t checkpoint_every = 100;
  bool resume = false;  // from the checkpoint
  int cpu_devices = 0;  // 0: as many as ranks on the node
  // Threads of each rank's part of the CPU; repeated over the ranks. 0: an even
  // share of the cores.
  std::vector<int> threads = {0};
  // Threads of each rank that read the next step's images.
  int readers = 4;
  // How often to time the convolutions alone at the end.
  int measurements = 5;
};

// Collective. All ranks return the same report or the same error: those of
// Session::Create, of reading files, and of the devices; kInvalidArgument if
// options do not fit together; kDataLoss if the ranks' parameters differ at the
// end. Calls `interrupted` after each step; if it returns true on any rank, all
// stop there.
Result<Report> Train(Ranks& ranks, const TrainOptions& options,
                     const std::function<bool()>& interrupted);

}  // namespace ucudnn::train

#endif  // UCUDNN_CLIENT_EXAMPLES_TRAIN_TRAINING_H_
