#ifndef UCUDNN_CLIENT_EXAMPLES_TRAIN_TRAINING_H_
#define UCUDNN_CLIENT_EXAMPLES_TRAIN_TRAINING_H_

// What the ranks of a training do together, over MPI_COMM_WORLD: agree on a
// plan, train on their shares of each mini-batch, sum up gradients.

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
  // What a job would ask for; the network's layers are found out.
  SessionOptions session;
  std::string net = "lenet";       // lenet, resnet18, or a file of a chain
  std::string data = "synthetic";  // or mnist:FOLDER, cifar10:FOLDER
  Extent image{0, 0, 0};           // synthetic; 0: what suits the network
  std::int64_t classes = 0;        // synthetic; 0: what suits the network
  std::int64_t images = 4096;      // synthetic
  std::uint64_t seed = 1;
  std::int64_t steps = 100;
  double rate = 0.01;
  double momentum = 0.9;
  // Share the mini-batch evenly; each rank's part is planned for itself.
  bool even = false;
  // Where the training stands is kept there, if anywhere: after so many steps
  // each, and at the end.
  std::string checkpoint;
  std::int64_t checkpoint_every = 100;
  bool resume = false;  // from there
  int cpu_devices = 0;  // 0: as many as ranks on the node
  // Of each rank's part of the CPU, by rank, in turn; 0: an even share.
  std::vector<int> threads = {0};
  // Threads of each rank that read the next step's images.
  int readers = 4;
  // How often the convolutions alone are timed in the end.
  int measurements = 5;
};

// Collective. All ranks have the same report or the same error: those of
// Session::Create, of reading files, and of the devices; kInvalidArgument if
// the options do not fit together; kDataLoss if the ranks' parameters differ
// in the end. `interrupted` is asked after each step; if it is true on any
// rank, all stop there.
Result<Report> Train(Ranks& ranks, const TrainOptions& options,
                     const std::function<bool()>& interrupted);

}  // namespace ucudnn::train

#endif  // UCUDNN_CLIENT_EXAMPLES_TRAIN_TRAINING_H_
