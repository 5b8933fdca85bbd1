#ifndef UCUDNN_DEVICE_ONEDNN_BLEND_H_
#define UCUDNN_DEVICE_ONEDNN_BLEND_H_

// out = alpha * computed + beta * out, between any two formats of a tensor:
// turns a computed convolution into the result that the caller requested.

#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <utility>

#include "device/onednn/runtime.h"

namespace ucudnn::onednn {

class Blend {
 public:
  // Throws dnnl::error. Prepares a plain copy (alpha 1, beta 0); other factors
  // are prepared on first use, or by Ready.
  Blend(const Runtime& runtime, const dnnl::memory::desc& computed,
        const dnnl::memory::desc& out);

  // Throws dnnl::error.
  void Ready(float alpha, float beta) { Reorder(alpha, beta); }

  // With beta == 0, out is not read. Throws dnnl::error.
  void Run(void* computed, void* out, float alpha, float beta);

 private:
  const dnnl::reorder& Reorder(float alpha, float beta);

  const Runtime& runtime_;
  dnnl::memory computed_;
  dnnl::memory out_;
  std::map<std::pair<float, float>, dnnl::reorder> reorders_;
};

// A tensor of `count` elements in one row.
dnnl::memory::desc Row(std::int64_t count, dnnl::memory::data_type type);

}  // namespace ucudnn::onednn

#endif  // UCUDNN_DEVICE_ONEDNN_BLEND_H_
