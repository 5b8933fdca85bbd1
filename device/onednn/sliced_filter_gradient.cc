#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "device/host_memory.h"
#include "device/onednn/blend.h"
#include "device/onednn/convolution.h"

namespace ucudnn::onednn {
namespace {

using dnnl::memory;

constexpr std::int64_t kSliceBytes = 64 * 1024;

// How the filters are sliced: into runs of whole groups or, if one group is too
// large, each group into runs of filters. Filters are stored one after the
// other, so a run of them is contiguous in the result.
struct Slicing {
  std::int64_t groups = 1;   // whole groups of one slice
  std::int64_t filters = 1;  // of each of its groups
  std::int64_t filter_elements = 1;
  std::int64_t element_bytes = 4;

  std::int64_t bytes() const {
    return groups * filters * filter_elements * element_bytes;
  }
};

Slicing SlicingOf(const ConvProblem& problem) {
  const ConvGeometry& g = problem.geometry;
  Slicing s;
  s.filter_elements = g.filter_elements() / g.filters;
  s.element_bytes = ElementBytes(problem.precision);
  const std::int64_t fitting = std::max<std::int64_t>(
      1, kSliceBytes / (s.filter_elements * s.element_bytes));
  const std::int64_t group_filters = g.filters / g.groups;
  s.filters = std::min(group_filters, fitting);
  s.groups = std::clamp<std::int64_t>(fitting / group_filters, 1, g.groups);
  return s;
}

// A slice of `channels` channels of a tensor, with the same strides.
memory::desc WithChannels(const memory::desc& tensor, std::int64_t channels) {
  memory::dims dims = tensor.dims();
  dims[1] = channels;
  const auto& strides = tensor.data.format_desc.blocking.strides;
  return {dims, tensor.data_type(),
          memory::dims(strides, strides + tensor.data.ndims)};
}

// The computation of one slice of a given extent.
struct SliceKernel {
  SliceKernel(const Runtime& runtime, const ConvProblem& whole, BatchSize batch,
              std::int64_t groups, std::int64_t filters) {
    const ConvGeometry& g = whole.geometry;
    ConvProblem part = whole;
    part.geometry.groups = groups;
    part.geometry.channels = groups * (g.channels / g.groups);
    part.geometry.filters = groups * filters;
    const Tensors all = PlainTensors(whole, batch);
    Tensors tensors = PlainTensors(part, batch);
    tensors.input = WithChannels(all.input, part.geometry.channels);
    tensors.output = WithChannels(all.output, part.geometry.filters);
    const dnnl::primitive_desc descriptor =
        ReferenceFor(runtime.engine, part, tensors);
    primitive = dnnl::primitive(descriptor);
    const auto unbound = [&](const memory::desc& desc) {
      return memory(desc, runtime.engine, DNNL_MEMORY_NONE);
    };
    input = unbound(tensors.input);
    gradient = unbound(tensors.output);
    filter = unbound(tensors.filter);
    arguments = {{DNNL_ARG_SRC, input},
                 {DNNL_ARG_DIFF_DST, gradient},
                 {DNNL_ARG_DIFF_WEIGHTS, filter}};
    const memory::desc row =
        Row(part.geometry.filter_elements(), tensors.filter.data_type());
    blend.emplace(runtime, row, row);
    blend->Ready(1.0F, 1.0F);
  }

  dnnl::primitive primitive;
  memory input;
  memory gradient;
  memory filter;
  std::unordered_map<int, memory> arguments;
  std::optional<Blend> blend;
};

class SlicedFilterGradient : public Convolution {
 public:
  // Throws dnnl::error.
  SlicedFilterGradient(const Runtime& runtime, const ConvProblem& problem,
                       BatchSize batch, DeviceBuffer slice)
      : runtime_(runtime),
        problem_(problem),
        slicing_(SlicingOf(problem)),
        slice_(std::move(slice)) {
    const ConvGeometry& g = problem.geometry;
    full_.emplace(runtime, problem, batch, slicing_.groups, slicing_.filters);
    const std::int64_t rest_groups = g.groups % slicing_.groups;
    const std::int64_t rest_filters = g.filters / g.groups % slicing_.filters;
    if (rest_groups > 0 || rest_filters > 0) {
      rest_.emplace(runtime, problem, batch,
                    rest_groups > 0 ? rest_groups : slicing_.groups,
                    rest_filters > 0 ? rest_filters : slicing_.filters);
    }
  }

  Bytes workspace() const override { return {}; }

  Status Run(const ConvArgs& args, void* workspace,
             Bytes workspace_size) override {
    UCUDNN_RETURN_IF_ERROR(
        CheckAlignedRun(args, workspace, workspace_size, this->workspace()));
    return Translated([&]() -> Status {
      const Threads::Scope scope(runtime_.threads);
      const ConvGeometry& g = problem_.geometry;
      const std::int64_t group_filters = g.filters / g.groups;
      for (std::int64_t group = 0; group < g.groups; group += slicing_.groups) {
        for (std::int64_t k = 0; k < group_filters; k += slicing_.filters) {
          const bool full = group + slicing_.groups <= g.groups &&
                            k + slicing_.filters <= group_filters;
          RunSlice(full ? *full_ : *rest_, args, group,
                   group * group_filters + k);
        }
      }
      return {};
    });
  }

 private:
  // Computes the slice that starts at `group` and at `filter`, counted over all
  // groups.
  void RunSlice(SliceKernel& slice, const ConvArgs& args, std::int64_t group,
                std::int64_t filter) {
    const ConvGeometry& g = problem_.geometry;
    const std::int64_t element = slicing_.element_bytes;
    const bool nhwc = problem_.layout == Layout::kNhwc;
    // Distance between two channels of an image.
    const std::int64_t in_stride = nhwc ? 1 : g.input_elements() / g.channels;
    const std::int64_t out_stride = nhwc ? 1 : g.output_elements() / g.filters;
    // oneDNN only reads the first two.
    auto* const a = static_cast<std::byte*>(const_cast<void*>(args.a));
    auto* const b = static_cast<std::byte*>(const_cast<void*>(args.b));
    auto* const out = static_cast<std::byte*>(args.out);
    slice.input.set_data_handle(a + element * in_stride * group *
                                        (g.channels / g.groups));
    slice.gradient.set_data_handle(b + element * out_stride * filter);
    slice.filter.set_data_handle(slice_.data());
    slice.primitive.execute(runtime_.stream, slice.arguments);
    slice.blend->Run(slice_.data(),
                     out + element * slicing_.filter_elements * filter,
                     args.alpha, args.beta);
  }

  const Runtime& runtime_;
  const ConvProblem problem_;
  const Slicing slicing_;
  const DeviceBuffer slice_;  // of the result, still to be scaled and added
  std::optional<SliceKernel> full_;
  std::optional<SliceKernel> rest_;  // the remaining groups or filters
};

}  // namespace

Result<std::unique_ptr<Convolution>> MakeSlicedFilterGradient(
    const Runtime& runtime, const ConvProblem& problem, BatchSize batch) {
  return Translated([&]() -> Result<std::unique_ptr<Convolution>> {
    UCUDNN_ASSIGN_OR_RETURN(
        DeviceBuffer slice,
        AllocateHostMemory(Bytes(SlicingOf(problem).bytes())));
    return std::make_unique<SlicedFilterGradient>(runtime, problem, batch,
                                                  std::move(slice));
  });
}

}  // namespace ucudnn::onednn
