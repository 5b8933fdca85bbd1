#include "client/train/job.h"

#include <cstddef>
#include <string>
#include <utility>

#include "base/files/file.h"
#include "base/text.h"
#include "base/training/dataflow.h"
#include "base/training/json.h"
#include "client/session/config.h"

namespace ucudnn::train {
namespace {

Result<std::unique_ptr<Dataset>> Stored(Result<StoredImages> images) {
  if (!images) return tl::unexpected<Error>(std::move(images).error());
  return std::make_unique<StoredImages>(*std::move(images));
}

// The data set in files, or what is held out; null if it is synthetic.
Result<std::unique_ptr<Dataset>> ReadData(const std::string& data,
                                          bool held_out) {
  const std::size_t colon = data.find(':');
  const std::string form = data.substr(0, colon);
  const std::string folder =
      colon == std::string::npos ? "" : data.substr(colon + 1);
  if (form == "synthetic" && colon == std::string::npos) return nullptr;
  if (form == "mnist" && !folder.empty())
    return Stored(ReadMnist(folder, held_out));
  if (form == "cifar10" && !folder.empty())
    return Stored(ReadCifar10(folder, held_out));
  return Fail(Code::kInvalidArgument,
              "--data: '{}'; synthetic, mnist:FOLDER or cifar10:FOLDER is "
              "accepted",
              data);
}

// What the network reads and tells of one image.
struct Shapes {
  ImageExtent image;
  std::int64_t classes = 0;
};
Shapes ShapesOf(const PreparedTraining& network) {
  Shapes shapes;
  for (const TaskOperation& operation : network.operations) {
    if (operation.what == TaskOperator::kLoss) {
      shapes.classes = operation.input.channels;
    }
  }
  for (const std::size_t input : InputsOf(network.whole)) {
    shapes.image = ExtentOfImage(network.whole.tensors[input]);
  }
  return shapes;
}

Status CheckData(const TrainOptions& options, const Shapes& shapes,
                 const Dataset& data) {
  if (data.extent() != shapes.image) {
    return Fail(Code::kInvalidArgument,
                "{} takes images of {}; those of --data are {}",
                Excerpt(options.network), ToString(shapes.image),
                ToString(data.extent()));
  }
  if (data.classes() <= shapes.classes) return {};
  return Fail(Code::kInvalidArgument,
              "{} tells {} classes apart; --data has {}",
              Excerpt(options.network), shapes.classes, data.classes());
}

Result<std::unique_ptr<Dataset>> DataOf(const TrainOptions& options,
                                        const Shapes& shapes, bool held_out) {
  UCUDNN_ASSIGN_OR_RETURN(auto data, OfInput(ReadData(options.data, held_out)));
  if (data == nullptr) {
    data = std::make_unique<SyntheticImages>(
        shapes.image, options.classes > 0 ? options.classes : shapes.classes,
        held_out ? options.evaluate : options.images, options.seed,
        held_out ? options.images : 0);
  }
  UCUDNN_RETURN_IF_ERROR(CheckData(options, shapes, *data));
  return data;
}

Result<TrainingInput> ReadInput(const TrainOptions& options, int ranks) {
  TrainingInput input;
  input.source = Excerpt(options.network, 4096);
  input.name = NetworkNameOf(options.network);
  input.batch = options.batch;
  input.seed = options.seed;
  input.split = options.split;
  input.graph.precision = options.precision;
  input.graph.momentum = options.momentum > 0;
  // Of parts of the mini-batch, they would differ between ranks.
  input.graph.running_statistics = !options.statistics_of_ranks;
  input.graph.updates_at_end = ranks > 1;
  UCUDNN_ASSIGN_OR_RETURN(
      input.contents,
      OfInput(ReadNetworkContents(options.network, options.shapes)));
  if (options.device_model.empty()) return input;
  UCUDNN_ASSIGN_OR_RETURN(const std::string text,
                          OfInput(ReadFile(options.device_model, 1_MiB)));
  UCUDNN_ASSIGN_OR_RETURN(input.model,
                          ParseDeviceModel(text, options.device_model));
  return input;
}

}  // namespace

Result<Job> MakeJob(const TrainOptions& options, int ranks) {
  Job job;
  UCUDNN_ASSIGN_OR_RETURN(job.input, ReadInput(options, ranks));
  UCUDNN_ASSIGN_OR_RETURN(job.network, OfInput(ReadTraining(job.input)));
  const Shapes shapes = ShapesOf(*job.network);
  UCUDNN_ASSIGN_OR_RETURN(job.data, DataOf(options, shapes, false));
  if (options.evaluate > 0) {
    if (options.statistics_of_ranks && job.network->NormalisesOverImages()) {
      return Fail(Code::kInvalidArgument,
                  "--evaluate: {} normalises over its images, and with "
                  "--batch-statistics rank has no running statistics",
                  Excerpt(options.network));
    }
    UCUDNN_ASSIGN_OR_RETURN(job.held_out, DataOf(options, shapes, true));
  }
  const std::string description = fmt::format(
      "{} {}\n{} {} classes\n{} images\nbatch {}\nseed {}\nrate {} momentum "
      "{}\nstatistics of ranks {}\n{}",
      ShortHash(job.input.contents), Name(options.precision), options.data,
      job.data->classes(), job.data->size(), options.batch.count(),
      options.seed, options.rate, options.momentum, options.statistics_of_ranks,
      options.split ? job.network->graph.name + "\n" : "");
  job.hash = std::stoull(ShortHash(description), nullptr, 16);
  return job;
}

}  // namespace ucudnn::train
