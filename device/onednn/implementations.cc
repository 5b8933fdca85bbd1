#include "device/onednn/implementations.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace ucudnn::onednn {
namespace {

using dnnl::memory;

memory::data_type DataType(Precision precision) {
  return precision == Precision::kBf16 ? memory::data_type::bf16
                                       : memory::data_type::f32;
}

// The spatial part of a geometry: two or three extents.
memory::dims Last(const Spatial& extents, int dims) {
  return {extents.end() - dims, extents.end()};
}

memory::dims Joined(memory::dims outer, const memory::dims& inner) {
  outer.insert(outer.end(), inner.begin(), inner.end());
  return outer;
}

// Packed; `outer` dimensions, then one of channels, then spatial ones. NHWC
// moves the channels behind the spatial dimensions.
memory::desc Packed(const memory::dims& outer, std::int64_t channels,
                    const memory::dims& spatial, Layout layout,
                    memory::data_type type) {
  const memory::dims dims = Joined(Joined(outer, {channels}), spatial);
  std::vector<std::size_t> order;  // dimensions from the innermost outwards
  const std::size_t c = outer.size();
  if (layout == Layout::kNhwc) order.push_back(c);
  for (std::size_t i = dims.size() - 1; i > c; --i) order.push_back(i);
  if (layout == Layout::kNchw) order.push_back(c);
  for (std::size_t i = c; i > 0; --i) order.push_back(i - 1);
  memory::dims strides(dims.size());
  std::int64_t stride = 1;
  for (const std::size_t i : order) {
    strides[i] = stride;
    stride *= dims[i];
  }
  return {dims, type, strides};
}

memory::desc AnyFormat(const memory::desc& tensor) {
  return {tensor.dims(), tensor.data_type(), memory::format_tag::any};
}

// A walk over the implementations of an algorithm:
//
//   for (Walk walk(...); !walk.done(); walk.Next()) walk.current()...;
//
// oneDNN reads the description, the attributes and the hint at each step, so
// the walk owns them and cannot be moved.
class Walk {
 public:
  Walk(const dnnl::engine& engine, const ConvProblem& problem,
       dnnl::algorithm algorithm, const Tensors& t) {
    attributes_.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const ConvGeometry& g = problem.geometry;
    const int n = g.spatial_dims;
    const memory::dims strides = Last(g.stride, n);
    const memory::dims padding = Last(g.padding, n);
    memory::dims dilation = Last(g.dilation, n);
    for (std::int64_t& d : dilation) --d;  // oneDNN counts the gaps

    const auto forward = [&](dnnl::algorithm how) {
      return dnnl::convolution_forward::desc(
                 dnnl::prop_kind::forward_training, how, t.input, t.filter,
                 t.output, strides, dilation, padding, padding)
          .data;
    };
    switch (problem.op) {
      case ConvOp::kForward:
        description_ = forward(algorithm);
        break;
      case ConvOp::kBackwardData:
        description_ = dnnl::convolution_backward_data::desc(
                           algorithm, t.input, t.filter, t.output, strides,
                           dilation, padding, padding)
                           .data;
        break;
      case ConvOp::kBackwardFilter:
        description_ = dnnl::convolution_backward_weights::desc(
                           algorithm, t.input, t.filter, t.output, strides,
                           dilation, padding, padding)
                           .data;
        break;
    }
    if (problem.op != ConvOp::kForward) {
      forward_ = forward(dnnl::algorithm::convolution_direct);
      hint_ = First(engine, forward_, nullptr);
      if (!hint_) return;
    }
    current_ = First(engine, description_, hint_.get(/*allow_empty=*/true));
    done_ = !current_;
  }
  Walk(const Walk&) = delete;
  Walk& operator=(const Walk&) = delete;

  bool done() const { return done_; }
  const dnnl::primitive_desc& current() const { return current_; }
  void Next() { done_ = !current_.next_impl(); }

 private:
  dnnl::primitive_desc First(const dnnl::engine& engine,
                             const dnnl_convolution_desc_t& description,
                             const_dnnl_primitive_desc_t hint) {
    return {&description, &attributes_, engine, hint, /*allow_empty=*/true};
  }

  dnnl::primitive_attr attributes_;
  dnnl_convolution_desc_t forward_ = {};
  dnnl_convolution_desc_t description_ = {};
  dnnl::primitive_desc hint_;  // the forward primitive of backward operations
  dnnl::primitive_desc current_;
  bool done_ = true;
};

}  // namespace

Tensors PlainTensors(const ConvProblem& problem, BatchSize batch) {
  const ConvGeometry& g = problem.geometry;
  const memory::data_type type = DataType(problem.precision);
  const int n = g.spatial_dims;
  memory::dims filters = {g.filters};
  if (g.groups > 1) filters = {g.groups, g.filters / g.groups};
  return {Packed({batch.count()}, g.channels, Last(g.input, n), problem.layout,
                 type),
          Packed(filters, g.channels / g.groups, Last(g.filter, n),
                 problem.layout, type),
          Packed({batch.count()}, g.filters, Last(g.output(), n),
                 problem.layout, type)};
}

std::array<memory::desc, 3> Operands(ConvOp op, const Tensors& t) {
  switch (op) {
    case ConvOp::kForward:
      return {t.input, t.filter, t.output};
    case ConvOp::kBackwardData:
      return {t.output, t.filter, t.input};
    case ConvOp::kBackwardFilter:
      return {t.input, t.output, t.filter};
  }
  return {};
}

std::array<int, 3> ArgumentNames(ConvOp op) {
  switch (op) {
    case ConvOp::kForward:
      return {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    case ConvOp::kBackwardData:
      return {DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC};
    case ConvOp::kBackwardFilter:
      return {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS};
  }
  return {};
}

bool IsReference(const std::string& name) { return name.starts_with("ref"); }

void VisitImplementations(
    const dnnl::engine& engine, const ConvProblem& problem, BatchSize batch,
    const std::function<bool(const Implementation&)>& visit) {
  const Tensors plain = PlainTensors(problem, batch);
  const std::array<int, 3> arguments = ArgumentNames(problem.op);

  struct Question {
    Tensors tensors;
    std::string suffix;
    bool reference;
  };
  const std::array questions = {
      Question{{AnyFormat(plain.input), AnyFormat(plain.filter),
                AnyFormat(plain.output)},
               "",
               false},
      Question{{plain.input, AnyFormat(plain.filter), plain.output},
               problem.layout == Layout::kNchw ? ":nchw" : ":nhwc",
               false},
      Question{plain, "", true}};

  // The visited implementations: oneDNN's names and formats.
  std::vector<std::pair<std::string, std::array<memory::desc, 3>>> seen;
  std::vector<std::string> names;
  for (const Question& question : questions) {
    for (const dnnl::algorithm algorithm :
         {dnnl::algorithm::convolution_direct,
          dnnl::algorithm::convolution_winograd}) {
      for (Walk walk(engine, problem, algorithm, question.tensors);
           !walk.done(); walk.Next()) {
        const dnnl::primitive_desc& descriptor = walk.current();
        const std::string name = descriptor.impl_info_str();
        if (IsReference(name) != question.reference) continue;
        Implementation implementation{name, descriptor, {}};
        for (const Operand i : {kA, kB, kOut}) {
          implementation.formats[i] =
              descriptor.query_md(dnnl::query::exec_arg_md, arguments[i]);
        }
        const auto alike = [&](const auto& other) {
          return other.first == name &&
                 SamePlaces(other.second[kA], implementation.formats[kA]) &&
                 SamePlaces(other.second[kB], implementation.formats[kB]) &&
                 SamePlaces(other.second[kOut], implementation.formats[kOut]);
        };
        if (std::any_of(seen.begin(), seen.end(), alike)) continue;
        seen.emplace_back(name, implementation.formats);

        implementation.name += question.suffix;
        const std::string base = implementation.name;
        for (int n = 2; std::find(names.begin(), names.end(),
                                  implementation.name) != names.end();
             ++n) {
          implementation.name = base + "#" + std::to_string(n);
        }
        names.push_back(implementation.name);
        if (!visit(implementation)) return;
      }
    }
  }
}

dnnl::primitive_desc ReferenceFor(const dnnl::engine& engine,
                                  const ConvProblem& problem,
                                  const Tensors& tensors) {
  for (Walk walk(engine, problem, dnnl::algorithm::convolution_direct, tensors);
       !walk.done(); walk.Next()) {
    if (IsReference(walk.current().impl_info_str())) return walk.current();
  }
  return {};
}

bool SamePlaces(const memory::desc& a, const memory::desc& b) {
  if (a == b) return true;
  // Strides of dimensions of extent 1 do not matter.
  const auto strided = [](const dnnl_memory_desc_t& d) {
    return d.format_kind == dnnl_blocked &&
           d.format_desc.blocking.inner_nblks == 0 && d.extra.flags == 0 &&
           d.offset0 == 0 &&
           std::equal(d.dims, d.dims + d.ndims, d.padded_dims);
  };
  const dnnl_memory_desc_t& x = a.data;
  const dnnl_memory_desc_t& y = b.data;
  if (!strided(x) || !strided(y) || x.data_type != y.data_type ||
      x.ndims != y.ndims) {
    return false;
  }
  for (int i = 0; i < x.ndims; ++i) {
    if (x.dims[i] != y.dims[i]) return false;
    if (x.dims[i] > 1 && x.format_desc.blocking.strides[i] !=
                             y.format_desc.blocking.strides[i]) {
      return false;
    }
  }
  return true;
}

}  // namespace ucudnn::onednn
