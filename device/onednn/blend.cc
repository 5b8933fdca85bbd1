#include "device/onednn/blend.h"

#include <unordered_map>

namespace ucudnn::onednn {

using dnnl::memory;

Blend::Blend(const Runtime& runtime, const memory::desc& computed,
             const memory::desc& out)
    : runtime_(runtime),
      computed_(computed, runtime.engine, DNNL_MEMORY_NONE),
      out_(out, runtime.engine, DNNL_MEMORY_NONE) {
  Reorder(1.0F, 0.0F);
}

const dnnl::reorder& Blend::Reorder(float alpha, float beta) {
  const auto known = reorders_.find({alpha, beta});
  if (known != reorders_.end()) return known->second;
  // Bounds the cache for callers that keep changing their factors.
  constexpr std::size_t kMost = 16;
  if (reorders_.size() >= kMost) reorders_.clear();
  dnnl::primitive_attr attributes;
  if (alpha != 1.0F) attributes.set_output_scales(0, {alpha});
  if (beta != 0.0F) {
    dnnl::post_ops sum;
    sum.append_sum(beta);
    attributes.set_post_ops(sum);
  }
  const dnnl::reorder::primitive_desc descriptor(
      runtime_.engine, computed_.get_desc(), runtime_.engine, out_.get_desc(),
      attributes);
  return reorders_.emplace(std::pair(alpha, beta), dnnl::reorder(descriptor))
      .first->second;
}

void Blend::Run(void* computed, void* out, float alpha, float beta) {
  computed_.set_data_handle(computed);
  out_.set_data_handle(out);
  Reorder(alpha, beta)
      .execute(runtime_.stream,
               {{DNNL_ARG_FROM, computed_}, {DNNL_ARG_TO, out_}});
}

memory::desc Row(std::int64_t count, memory::data_type type) {
  return {{count}, type, memory::format_tag::a};
}

}  // namespace ucudnn::onednn
