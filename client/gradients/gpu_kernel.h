#ifndef UCUDNN_CLIENT_GRADIENTS_GPU_KERNEL_H_
#define UCUDNN_CLIENT_GRADIENTS_GPU_KERNEL_H_

// out[i] = factor in[i] (+ out[i] if `add` is not 0), i < count, as PTX that
// every driver compiles for its GPU: one kernel is no reason to need a compiler
// of CUDA's.

#include <string>
#include <string_view>

namespace ucudnn {

// The names of its entries for float and double.
inline constexpr const char* kBlendFloat = "blend_f32";
inline constexpr const char* kBlendDouble = "blend_f64";

// `entry` with `type`, "f32" or "f64", of 2^shift bytes.
inline std::string BlendEntry(std::string_view entry, std::string_view type,
                              char shift) {
  std::string text = R"(
.visible .entry ENTRY(.param .u64 out, .param .u64 in, .param .TYPE factor,
                      .param .u64 count, .param .u32 add) {
  .reg .pred %past, %adds;
  .reg .b32 %block, %blocks, %thread, %threads, %add;
  .reg .b64 %i, %n, %step, %to, %from, %t, %o;
  .reg .TYPE %x, %y, %f;
  ld.param.u64 %to, [out];
  ld.param.u64 %from, [in];
  ld.param.TYPE %f, [factor];
  ld.param.u64 %n, [count];
  ld.param.u32 %add, [add];
  cvta.to.global.u64 %to, %to;
  cvta.to.global.u64 %from, %from;
  setp.ne.u32 %adds, %add, 0;
  mov.u32 %block, %ctaid.x;
  mov.u32 %blocks, %nctaid.x;
  mov.u32 %thread, %tid.x;
  mov.u32 %threads, %ntid.x;
  mul.wide.u32 %i, %block, %threads;
  cvt.u64.u32 %t, %thread;
  add.s64 %i, %i, %t;
  mul.wide.u32 %step, %blocks, %threads;
next:
  setp.ge.u64 %past, %i, %n;
  @%past bra end;
  shl.b64 %o, %i, SHIFT;
  add.s64 %t, %from, %o;
  ld.global.TYPE %x, [%t];
  mul.rn.TYPE %x, %x, %f;
  add.s64 %t, %to, %o;
  @%adds ld.global.TYPE %y, [%t];
  @%adds add.rn.TYPE %x, %x, %y;
  st.global.TYPE [%t], %x;
  add.s64 %i, %i, %step;
  bra next;
end:
  ret;
}
)";
  const auto replace = [&](std::string_view name, std::string_view value) {
    for (std::size_t at = 0; (at = text.find(name, at)) != std::string::npos;
         at += value.size()) {
      text.replace(at, name.size(), value);
    }
  };
  replace("ENTRY", entry);
  replace("TYPE", type);
  replace("SHIFT", std::string_view(&shift, 1));
  return text;
}

inline std::string BlendModule() {
  return ".version 6.0\n.target sm_50\n.address_size 64\n" +
         BlendEntry(kBlendFloat, "f32", '2') +
         BlendEntry(kBlendDouble, "f64", '3');
}

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_GRADIENTS_GPU_KERNEL_H_
