#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "client/examples/train/layers.h"
#include "device/onednn/blend.h"
#include "device/onednn/onednn_device.h"
#include "device/onednn/runtime.h"

namespace ucudnn::train {
namespace {

using dnnl::memory;
using onednn::Runtime;
using onednn::Threads;
using onednn::Translated;

// The sizes of a tensor; also a key for prepared primitives.
using Sizes =
    std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>;

Sizes SizesOf(BatchSize batch, const Extent& extent) {
  return {batch.count(), extent.channels, extent.height, extent.width};
}

memory::desc Nchw(BatchSize batch, const Extent& e) {
  return {{batch.count(), e.channels, e.height, e.width},
          memory::data_type::f32,
          memory::format_tag::nchw};
}

// oneDNN takes inputs by non-const pointers.
void* Writable(const float* data) { return const_cast<float*>(data); }

class OneDnnPool : public Pool {
 public:
  // Throws dnnl::error.
  OneDnnPool(const Runtime& runtime, const Layer& layer, const Extent& in,
             const Extent& out, BatchSize batch)
      : runtime_(runtime) {
    const Window& w = layer.window;
    const auto algorithm = layer.kind == Layer::Kind::kMaxPool
                               ? dnnl::algorithm::pooling_max
                               : dnnl::algorithm::pooling_avg_include_padding;
    const memory::desc x = Nchw(batch, in);
    const memory::desc y = Nchw(batch, out);
    const memory::dims strides = {w.stride_height, w.stride_width};
    const memory::dims kernel = {w.height, w.width};
    const memory::dims begin = {w.padding, w.padding};
    // The padding at the far side that makes the windows fit.
    const auto far = [&](std::int64_t from, std::int64_t to, std::int64_t size,
                         std::int64_t stride) {
      return (to - 1) * stride + size - from - w.padding;
    };
    const memory::dims end = {
        far(in.height, out.height, w.height, w.stride_height),
        far(in.width, out.width, w.width, w.stride_width)};
    const dnnl::pooling_forward::primitive_desc forward(
        {dnnl::prop_kind::forward_training, algorithm, x, y, strides, kernel,
         begin, end},
        runtime.engine);
    const dnnl::pooling_backward::primitive_desc backward(
        {algorithm, x, y, strides, kernel, begin, end}, runtime.engine,
        forward);
    forward_ = dnnl::pooling_forward(forward);
    backward_ = dnnl::pooling_backward(backward);
    x_ = memory(x, runtime.engine, DNNL_MEMORY_NONE);
    y_ = memory(y, runtime.engine, DNNL_MEMORY_NONE);
    if (layer.kind == Layer::Kind::kMaxPool) {
      maxima_ = memory(forward.workspace_desc(), runtime.engine);
    }
  }

  Status Forward(const float* x, float* y) override {
    return Run(forward_, {{DNNL_ARG_SRC, x_}, {DNNL_ARG_DST, y_}}, Writable(x),
               y);
  }

  Status Backward(const float* /*x*/, const float* /*y*/, const float* dy,
                  float* dx) override {
    return Run(backward_, {{DNNL_ARG_DIFF_SRC, x_}, {DNNL_ARG_DIFF_DST, y_}},
               dx, Writable(dy));
  }

 private:
  Status Run(dnnl::primitive& primitive,
             std::unordered_map<int, memory> arguments, void* x, void* y) {
    return Translated([&]() -> Status {
      const Threads::Scope scope(runtime_.threads);
      x_.set_data_handle(x);
      y_.set_data_handle(y);
      if (maxima_) arguments.emplace(DNNL_ARG_WORKSPACE, maxima_);
      primitive.execute(runtime_.stream, arguments);
      return {};
    });
  }

  const Runtime& runtime_;
  dnnl::primitive forward_;
  dnnl::primitive backward_;
  memory x_;
  memory y_;
  memory maxima_;  // positions of the maxima
};

// A primitive and the memory of its tensors, which have one shape.
struct Prepared {
  dnnl::primitive primitive;
  memory x;
  memory y;
  memory dy;
};

class OneDnnLayers : public Layers {
 public:
  explicit OneDnnLayers(const Runtime& runtime) : runtime_(runtime) {}

  Result<std::unique_ptr<Pool>> MakePool(const Layer& layer, const Extent& in,
                                         const Extent& out,
                                         BatchSize batch) override {
    return Translated([&]() -> Result<std::unique_ptr<Pool>> {
      const Threads::Scope scope(runtime_.threads);
      return std::make_unique<OneDnnPool>(runtime_, layer, in, out, batch);
    });
  }

  Status Relu(BatchSize batch, const Extent& extent, float* x) override {
    return Translated([&]() -> Status {
      const Threads::Scope scope(runtime_.threads);
      Prepared& p =
          Prepare(relu_, batch, extent, [&](const memory::desc& form) {
            return dnnl::eltwise_forward(ReluForward(form));
          });
      p.x.set_data_handle(x);
      p.primitive.execute(runtime_.stream,
                          {{DNNL_ARG_SRC, p.x}, {DNNL_ARG_DST, p.x}});
      return {};
    });
  }

  Status ReluBackward(BatchSize batch, const Extent& extent, const float* y,
                      float* dy) override {
    return Translated([&]() -> Status {
      const Threads::Scope scope(runtime_.threads);
      Prepared& p =
          Prepare(relu_backward_, batch, extent, [&](const memory::desc& form) {
            return dnnl::eltwise_backward(
                {{dnnl::algorithm::eltwise_relu, form, form, 0.0F},
                 runtime_.engine,
                 ReluForward(form)});
          });
      p.y.set_data_handle(Writable(y));
      p.dy.set_data_handle(dy);
      p.primitive.execute(runtime_.stream, {{DNNL_ARG_SRC, p.y},
                                            {DNNL_ARG_DIFF_DST, p.dy},
                                            {DNNL_ARG_DIFF_SRC, p.dy}});
      return {};
    });
  }

  Status Softmax(BatchSize batch, const Extent& extent, const float* x,
                 float* y) override {
    return Translated([&]() -> Status {
      const Threads::Scope scope(runtime_.threads);
      Prepared& p =
          Prepare(softmax_, batch, extent, [&](const memory::desc& form) {
            constexpr int kChannels = 1;
            return dnnl::softmax_forward(
                {{dnnl::prop_kind::forward_inference, form, kChannels},
                 runtime_.engine});
          });
      p.x.set_data_handle(Writable(x));
      p.y.set_data_handle(y);
      p.primitive.execute(runtime_.stream,
                          {{DNNL_ARG_SRC, p.x}, {DNNL_ARG_DST, p.y}});
      return {};
    });
  }

  Status Blend(BatchSize batch, const Extent& extent, float alpha,
               const float* a, float beta, float* out) override {
    return Translated([&]() -> Status {
      const Threads::Scope scope(runtime_.threads);
      const memory::desc form = Nchw(batch, extent);
      blends_.try_emplace(SizesOf(batch, extent), runtime_, form, form)
          .first->second.Run(Writable(a), out, alpha, beta);
      return {};
    });
  }

 private:
  using Cache = std::map<Sizes, Prepared>;

  dnnl::eltwise_forward::primitive_desc ReluForward(const memory::desc& form) {
    return {{dnnl::prop_kind::forward_training, dnnl::algorithm::eltwise_relu,
             form, 0.0F},
            runtime_.engine};
  }

  template <class Make>
  Prepared& Prepare(Cache& cache, BatchSize batch, const Extent& extent,
                    Make make) {
    const auto known = cache.find(SizesOf(batch, extent));
    if (known != cache.end()) return known->second;
    const memory::desc form = Nchw(batch, extent);
    const auto empty = [&] {
      return memory(form, runtime_.engine, DNNL_MEMORY_NONE);
    };
    return cache
        .emplace(SizesOf(batch, extent),
                 Prepared{make(form), empty(), empty(), empty()})
        .first->second;
  }

  const Runtime& runtime_;
  Cache relu_;
  Cache relu_backward_;
  Cache softmax_;
  std::map<Sizes, onednn::Blend> blends_;
};

}  // namespace

Result<std::unique_ptr<Layers>> MakeOneDnnLayers(Device& device) {
  const Runtime* runtime = onednn::RuntimeOf(device);
  if (runtime == nullptr) return nullptr;
  return std::make_unique<OneDnnLayers>(*runtime);
}

}  // namespace ucudnn::train
