#include "client/examples/train/job.h"

#include <optional>
#include <utility>

#include "base/files/file.h"
#include "base/network.h"
#include "base/onnx/network_file.h"
#include "client/session/config.h"

namespace ucudnn::train {
namespace {

Result<std::unique_ptr<Dataset>> Stored(Result<StoredImages> images) {
  if (!images) return tl::unexpected<Error>(std::move(images).error());
  return std::make_unique<StoredImages>(*std::move(images));
}

// The data set in files; null if it is synthetic.
Result<std::unique_ptr<Dataset>> ReadData(const std::string& data) {
  const std::size_t colon = data.find(':');
  const std::string form = data.substr(0, colon);
  const std::string folder =
      colon == std::string::npos ? "" : data.substr(colon + 1);
  if (form == "synthetic" && colon == std::string::npos) return nullptr;
  if (form == "mnist" && !folder.empty()) return Stored(ReadMnist(folder));
  if (form == "cifar10" && !folder.empty()) return Stored(ReadCifar10(folder));
  return Fail(Code::kInvalidArgument,
              "--data: '{}'; synthetic, mnist:FOLDER or cifar10:FOLDER is "
              "accepted",
              data);
}

Result<Net> MakeNet(const std::string& name, const ImageExtent& image,
                    std::int64_t classes, const Network* chain) {
  if (name == "lenet") return LeNet(image, classes);
  if (name == "resnet18") return ResNet18(image, classes);
  UCUDNN_ASSIGN_OR_RETURN(Net net, Chain(*chain, classes));
  if (net.tensors.front() != image) {
    return Fail(Code::kInvalidArgument,
                "{} takes images of {}; those of --data are {}", name,
                ToString(net.tensors.front()), ToString(image));
  }
  return net;
}

}  // namespace

Result<Job> MakeJob(const TrainOptions& options) {
  Job job;
  std::optional<Network> chain;
  ImageExtent image = options.image;
  std::int64_t classes = options.classes > 0 ? options.classes : 10;
  ImageExtent suits{1, 28, 28};
  if (options.net == "resnet18") {
    suits = {3, 224, 224};
    if (options.classes == 0) classes = 1000;
  } else if (options.net != "lenet") {
    UCUDNN_ASSIGN_OR_RETURN(
        chain, OfInput(ReadNetworkFile(options.net, BatchSize(1))));
    const ConvGeometry& first = chain->layers.front().geometry;
    suits = {first.channels, first.input[1], first.input[2]};
  }
  if (image.elements() == 0) image = suits;
  UCUDNN_ASSIGN_OR_RETURN(job.data, OfInput(ReadData(options.data)));
  if (job.data == nullptr) {
    job.data = std::make_unique<SyntheticImages>(image, classes, options.images,
                                                 options.seed);
  }
  UCUDNN_ASSIGN_OR_RETURN(
      job.net, MakeNet(options.net, job.data->extent(), job.data->classes(),
                       chain ? &*chain : nullptr));
  // Plans are stored by network name, so another image shape needs another
  // name.
  job.net.name +=
      fmt::format("-{}-{}", ToString(job.data->extent()), job.data->classes());
  const std::string description =
      fmt::format("{}\n{}\n{} images\nbatch {}\nseed {}\nrate {} momentum {}\n",
                  ToCsv(ConvolutionsOf(job.net)), options.data,
                  job.data->size(), options.session.batch.count(), options.seed,
                  options.rate, options.momentum);
  job.hash = std::stoull(ShortHash(description), nullptr, 16);
  return job;
}

}  // namespace ucudnn::train
