#include "device/onednn/convolution.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "device/host_memory.h"
#include "device/onednn/blend.h"
#include "device/run_checks.h"

namespace ucudnn::onednn {
namespace {

using dnnl::memory;

// The layout of the workspace.
struct WorkspaceMap {
  std::array<std::optional<std::size_t>, 3> copies;  // offsets
  std::size_t scratchpad = 0;                        // offset
  std::size_t size = 0;
};

std::size_t Aligned(std::size_t size) { return (size + 63) / 64 * 64; }

WorkspaceMap MapWorkspace(const ConvProblem& problem, BatchSize batch,
                          const Implementation& implementation) {
  const std::array<memory::desc, 3> plain =
      Operands(problem.op, PlainTensors(problem, batch));
  WorkspaceMap map;
  for (const Operand i : {kA, kB, kOut}) {
    const memory::desc& format = implementation.formats[i];
    if (SamePlaces(plain[i], format) &&
        !(i == kOut && problem.op == ConvOp::kBackwardFilter)) {
      continue;
    }
    map.copies[i] = map.size;
    map.size += Aligned(format.get_size());
  }
  map.scratchpad = map.size;
  map.size += implementation.descriptor.scratchpad_desc().get_size();
  return map;
}

class OneDnnConvolution : public Convolution {
 public:
  // Throws dnnl::error.
  OneDnnConvolution(const Runtime& runtime, const ConvProblem& problem,
                    BatchSize batch, const Implementation& implementation)
      : runtime_(runtime),
        problem_(problem),
        batch_(batch),
        name_(implementation.name),
        map_(MapWorkspace(problem, batch, implementation)),
        primitive_(implementation.descriptor),
        scratchpad_(implementation.descriptor.scratchpad_desc(), runtime.engine,
                    DNNL_MEMORY_NONE) {
    const std::array<memory::desc, 3> plain =
        Operands(problem.op, PlainTensors(problem, batch));
    const std::array<int, 3> names = ArgumentNames(problem.op);
    for (const Operand i : {kA, kB, kOut}) {
      operands_[i] =
          memory(implementation.formats[i], runtime.engine, DNNL_MEMORY_NONE);
      arguments_.emplace(names[i], operands_[i]);
      if (!map_.copies[i]) continue;
      if (i == kOut) {
        blend_.emplace(runtime, implementation.formats[i], plain[i]);
        blend_->Ready(1.0F, 1.0F);  // adding up over micro-batches
      } else {
        inputs_[i].emplace(runtime, plain[i], implementation.formats[i]);
      }
    }
    arguments_.emplace(DNNL_ARG_SCRATCHPAD, scratchpad_);
    // A result in the caller's format that need not be scaled or added is
    // written directly.
    direct_ = SamePlaces(plain[kOut], implementation.formats[kOut]);
  }

  Bytes workspace() const override {
    return Bytes(static_cast<std::int64_t>(map_.size));
  }

  Status Run(const ConvArgs& args, void* workspace,
             Bytes workspace_size) override {
    UCUDNN_RETURN_IF_ERROR(
        CheckAlignedRun(args, workspace, workspace_size, this->workspace()));
    return Translated([&]() -> Status {
      const Threads::Scope scope(runtime_.threads);
      const bool plain = args.alpha == 1.0F && args.beta == 0.0F;
      if (!plain && !blend_) {
        return RunByImage(args, workspace, workspace_size);
      }
      auto* const base = static_cast<std::byte*>(workspace);
      void* const a = Input(kA, args.a, base);
      void* const b = Input(kB, args.b, base);
      const bool through_copy = blend_ && !(plain && direct_);
      void* const out = through_copy ? base + *map_.copies[kOut] : args.out;
      operands_[kA].set_data_handle(a);
      operands_[kB].set_data_handle(b);
      operands_[kOut].set_data_handle(out);
      scratchpad_.set_data_handle(base + map_.scratchpad);
      primitive_.execute(runtime_.stream, arguments_);
      if (through_copy) blend_->Run(out, args.out, args.alpha, args.beta);
      return {};
    });
  }

 private:
  // The operand in the implementation's format: the caller's or a copy.
  void* Input(Operand i, const void* data, std::byte* base) {
    void* const given = const_cast<void*>(data);  // oneDNN only reads it
    if (!inputs_[i]) return given;
    void* const copy = base + *map_.copies[i];
    inputs_[i]->Run(given, copy, 1.0F, 0.0F);
    return copy;
  }

  // Computes one image at a time in image_buffer_ and blends it into the
  // result.
  Status RunByImage(const ConvArgs& args, void* workspace,
                    Bytes workspace_size) {
    if (!image_) UCUDNN_RETURN_IF_ERROR(PrepareImage());
    const ConvGeometry& g = problem_.geometry;
    const bool forward = problem_.op == ConvOp::kForward;
    const std::int64_t element = ElementBytes(problem_.precision);
    const std::int64_t a_bytes =
        element * (forward ? g.input_elements() : g.output_elements());
    const std::int64_t out_bytes =
        element * (forward ? g.output_elements() : g.input_elements());
    for (std::int64_t n = 0; n < batch_.count(); ++n) {
      const auto* const a = static_cast<const std::byte*>(args.a) + n * a_bytes;
      auto* const out = static_cast<std::byte*>(args.out) + n * out_bytes;
      UCUDNN_RETURN_IF_ERROR(
          image_->Run({.a = a, .b = args.b, .out = image_buffer_.data()},
                      workspace, workspace_size));
      image_blend_->Run(image_buffer_.data(), out, args.alpha, args.beta);
    }
    return {};
  }

  // The same implementation for one image, if it fits in the same workspace;
  // else the reference implementation, which does.
  Status PrepareImage() {
    std::unique_ptr<Convolution> image;
    const BatchSize one(1);
    VisitImplementations(
        runtime_.engine, problem_, one, [&](const Implementation& candidate) {
          if (candidate.name == name_ || IsReference(candidate.name)) {
            auto made = std::make_unique<OneDnnConvolution>(runtime_, problem_,
                                                            one, candidate);
            if (made->workspace() <= workspace()) image = std::move(made);
          }
          return image == nullptr;
        });
    if (!image) {
      return Fail(Code::kInternal, "oneDNN has no reference for {}",
                  ToString(problem_));
    }
    const ConvGeometry& g = problem_.geometry;
    const std::int64_t elements = problem_.op == ConvOp::kForward
                                      ? g.output_elements()
                                      : g.input_elements();
    const memory::desc row =
        Row(elements, operands_[kOut].get_desc().data_type());
    UCUDNN_ASSIGN_OR_RETURN(
        image_buffer_,
        AllocateHostMemory(Bytes(elements * ElementBytes(problem_.precision))));
    image_blend_.emplace(runtime_, row, row);
    image_ = std::move(image);
    return {};
  }

  const Runtime& runtime_;
  const ConvProblem problem_;
  const BatchSize batch_;
  const std::string name_;
  const WorkspaceMap map_;
  dnnl::primitive primitive_;
  std::array<memory, 3> operands_;
  memory scratchpad_;
  std::unordered_map<int, memory> arguments_;
  std::array<std::optional<Blend>, 2> inputs_;  // to the wanted formats
  std::optional<Blend> blend_;                  // from the copy of the result
  bool direct_ = false;

  std::unique_ptr<Convolution> image_;
  DeviceBuffer image_buffer_;
  std::optional<Blend> image_blend_;
};

}  // namespace

Bytes WorkspaceOf(const ConvProblem& problem, BatchSize batch,
                  const Implementation& implementation) {
  return Bytes(static_cast<std::int64_t>(
      MapWorkspace(problem, batch, implementation).size));
}

Result<std::unique_ptr<Convolution>> MakeConvolution(
    const Runtime& runtime, const ConvProblem& problem, BatchSize batch,
    const Implementation& implementation) {
  return Translated([&]() -> Result<std::unique_ptr<Convolution>> {
    return std::make_unique<OneDnnConvolution>(runtime, problem, batch,
                                               implementation);
  });
}

Status CheckAlignedRun(const ConvArgs& args, const void* workspace,
                       Bytes workspace_size, Bytes needed) {
  UCUDNN_RETURN_IF_ERROR(CheckRun(args, workspace, workspace_size, needed));
  if (needed > Bytes() &&
      reinterpret_cast<std::uintptr_t>(workspace) % 64 != 0) {
    return Fail(Code::kInvalidArgument,
                "the workspace is not aligned to 64 bytes");
  }
  return {};
}

}  // namespace ucudnn::onednn
