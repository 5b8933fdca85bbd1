#ifndef UCUDNN_CLIENT_TRAIN_TRAINING_H_
#define UCUDNN_CLIENT_TRAIN_TRAINING_H_

// A training by all ranks of MPI_COMM_WORLD: they get a plan of shares and
// memory, train their shares of each mini-batch as it says, and sum gradients.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/onnx/network_file.h"
#include "base/result.h"
#include "client/ranks/ranks.h"
#include "client/session/session.h"
#include "client/train/report.h"
#include "client/training/prepared_training.h"
#include "solver/memory/split/split.h"

namespace ucudnn::train {

struct TrainOptions {
  std::string network;  // a file: an ONNX model, or a chain as CSV
  InputShapes shapes;
  BatchSize batch;  // over all ranks
  Precision precision = Precision::kFp32;
  std::string data = "synthetic";  // or mnist:FOLDER, cifar10:FOLDER
  std::int64_t images = 4096;      // synthetic
  std::int64_t classes = 0;        // synthetic; 0: the network's
  std::uint64_t seed = 1;
  std::int64_t steps = 100;
  // Images that are held out, on which the network as the model has it is
  // evaluated after the last step; at most as many as there are. 0: none.
  std::int64_t evaluate = 0;
  double rate = 0.001;
  double momentum = 0.9;
  // The first layers are computed in parts of the image, by cuts that are drawn
  // for each step from the seed if it is stochastic.
  std::optional<SplitOptions> split;
  // Normalisations take statistics over each rank's images, or each of its
  // sub-batches, instead of over the mini-batch.
  bool statistics_of_ranks = false;

  // The budgets of the ranks, or one for all; empty: everything stays in device
  // memory.
  std::vector<Bytes> budgets;
  // Empty: best with budgets, and undivided without.
  std::string policy;
  TrainingRequest plan;      // but for policy, budget and statistics
  std::string device_model;  // of the link, as a JSON file; empty: measured
  std::string measurements;  // the file that keeps them; empty: none
  std::string graph_out;  // where rank 0's measured graph goes; empty: nowhere
  // Split the mini-batch evenly, or into these shares of the ranks, and plan
  // each rank's part separately. At most one is given.
  bool even = false;
  std::vector<std::int64_t> shares;
  // Where a coordinator is, and how long to wait for it.
  SessionOptions session;

  // The checkpoint file, if any: saved every `checkpoint_every` steps and at
  // the end.
  std::string checkpoint;
  std::int64_t checkpoint_every = 100;
  bool resume = false;  // from the checkpoint

  std::string device = "auto";  // as client/ranks/device_match.h reads it
  int cpu_devices = 0;          // 0: as many as ranks on the node
  // Threads of each rank's part of the CPU; repeated over the ranks. 0: an even
  // share of the cores.
  std::vector<int> threads = {0};
  // Threads of each rank that read the next step's images.
  int readers = 4;
  bool time_tasks = false;
  bool poison = false;  // ExecutionOptions::poison
};

// Collective. All ranks return the same report or the same error: those of
// Session::Create, of reading files, of planning, and of the devices;
// kInvalidArgument if options do not fit together; kDataLoss if the ranks'
// parameters differ at the end. Once `stop` is requested on any rank, all stop
// after the step, and planning ends with kCancelled.
Result<Report> Train(Ranks& ranks, const TrainOptions& options,
                     const std::stop_token& stop);

}  // namespace ucudnn::train

#endif  // UCUDNN_CLIENT_TRAIN_TRAINING_H_
