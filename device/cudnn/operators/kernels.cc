#include "device/cudnn/operators/kernels.h"

#include <limits>

namespace ucudnn::cudnn {
namespace {

// A thread for each element. Every kernel begins by computing its number (%r0)
// and ends if that is not below `count`.
constexpr char kSource[] = R"(
.version 6.4
.target sm_75
.address_size 64

.visible .entry ucudnn_subtract_labels(
    .param .u64 gradients, .param .u64 labels, .param .u64 probabilities,
    .param .u32 count, .param .u32 pixels, .param .u32 channels,
    .param .f32 scale, .param .f32 inverse)
{
  .reg .pred %p;
  .reg .b32 %r<10>;
  .reg .f32 %f<4>;
  .reg .b64 %d<9>;
  mov.u32 %r0, %ctaid.x;
  mov.u32 %r1, %ntid.x;
  mov.u32 %r2, %tid.x;
  mad.lo.u32 %r0, %r0, %r1, %r2;
  ld.param.u32 %r3, [count];
  setp.ge.u32 %p, %r0, %r3;
  @%p bra DONE;
  ld.param.u64 %d0, [gradients];
  ld.param.u64 %d1, [labels];
  ld.param.u64 %d2, [probabilities];
  ld.param.u32 %r4, [pixels];
  ld.param.u32 %r5, [channels];
  ld.param.f32 %f0, [scale];
  ld.param.f32 %f3, [inverse];
  cvta.to.global.u64 %d0, %d0;
  cvta.to.global.u64 %d1, %d1;
  cvta.to.global.u64 %d2, %d2;
  mul.wide.u32 %d3, %r0, 4;
  add.u64 %d4, %d1, %d3;
  ld.global.u32 %r6, [%d4];
  div.u32 %r7, %r0, %r4;
  rem.u32 %r8, %r0, %r4;
  // (image * channels + label) * pixels + pixel
  mad.lo.u32 %r9, %r7, %r5, %r6;
  mul.wide.u32 %d5, %r9, %r4;
  cvt.u64.u32 %d6, %r8;
  add.u64 %d5, %d5, %d6;
  shl.b64 %d5, %d5, 2;
  add.u64 %d7, %d0, %d5;
  ld.global.f32 %f1, [%d7];
  mul.f32 %f2, %f1, %f3;
  add.u64 %d8, %d2, %d3;
  st.global.f32 [%d8], %f2;
  sub.f32 %f2, %f1, %f0;
  st.global.f32 [%d7], %f2;
DONE:
  ret;
}

.visible .entry ucudnn_dropout(
    .param .u64 from, .param .u64 to, .param .u64 mask, .param .u32 count,
    .param .u32 seed, .param .u32 threshold, .param .f32 factor)
{
  .reg .pred %p<2>;
  .reg .b32 %r<6>;
  .reg .b16 %h;
  .reg .f32 %f<2>;
  .reg .b64 %d<6>;
  mov.u32 %r0, %ctaid.x;
  mov.u32 %r1, %ntid.x;
  mov.u32 %r2, %tid.x;
  mad.lo.u32 %r0, %r0, %r1, %r2;
  ld.param.u32 %r1, [count];
  setp.ge.u32 %p0, %r0, %r1;
  @%p0 bra DONE;
  ld.param.u64 %d0, [from];
  ld.param.u64 %d1, [to];
  ld.param.u64 %d2, [mask];
  ld.param.u32 %r2, [seed];
  ld.param.u32 %r3, [threshold];
  ld.param.f32 %f1, [factor];
  cvta.to.global.u64 %d0, %d0;
  cvta.to.global.u64 %d1, %d1;
  cvta.to.global.u64 %d2, %d2;
  // DropoutHash
  mad.lo.u32 %r4, %r0, 0x9E3779B1, %r2;
  shr.u32 %r5, %r4, 16;
  xor.b32 %r4, %r4, %r5;
  mul.lo.u32 %r4, %r4, 0x85EBCA6B;
  shr.u32 %r5, %r4, 13;
  xor.b32 %r4, %r4, %r5;
  mul.lo.u32 %r4, %r4, 0xC2B2AE35;
  shr.u32 %r5, %r4, 16;
  xor.b32 %r4, %r4, %r5;
  setp.ge.u32 %p1, %r4, %r3;
  selp.u16 %h, 1, 0, %p1;
  cvt.u64.u32 %d3, %r0;
  add.u64 %d4, %d2, %d3;
  st.global.u8 [%d4], %h;
  shl.b64 %d3, %d3, 2;
  add.u64 %d4, %d0, %d3;
  add.u64 %d5, %d1, %d3;
  ld.global.f32 %f0, [%d4];
  mul.f32 %f0, %f0, %f1;
  selp.f32 %f0, %f0, 0f00000000, %p1;
  st.global.f32 [%d5], %f0;
DONE:
  ret;
}

.visible .entry ucudnn_dropout_backward(
    .param .u64 from, .param .u64 to, .param .u64 mask, .param .u32 count,
    .param .f32 factor)
{
  .reg .pred %p<2>;
  .reg .b32 %r<3>;
  .reg .b16 %h;
  .reg .f32 %f<2>;
  .reg .b64 %d<6>;
  mov.u32 %r0, %ctaid.x;
  mov.u32 %r1, %ntid.x;
  mov.u32 %r2, %tid.x;
  mad.lo.u32 %r0, %r0, %r1, %r2;
  ld.param.u32 %r1, [count];
  setp.ge.u32 %p0, %r0, %r1;
  @%p0 bra DONE;
  ld.param.u64 %d0, [from];
  ld.param.u64 %d1, [to];
  ld.param.u64 %d2, [mask];
  ld.param.f32 %f1, [factor];
  cvta.to.global.u64 %d0, %d0;
  cvta.to.global.u64 %d1, %d1;
  cvta.to.global.u64 %d2, %d2;
  cvt.u64.u32 %d3, %r0;
  add.u64 %d4, %d2, %d3;
  ld.global.u8 %h, [%d4];
  setp.ne.u16 %p1, %h, 0;
  shl.b64 %d3, %d3, 2;
  add.u64 %d4, %d0, %d3;
  add.u64 %d5, %d1, %d3;
  ld.global.f32 %f0, [%d4];
  mul.f32 %f0, %f0, %f1;
  selp.f32 %f0, %f0, 0f00000000, %p1;
  st.global.f32 [%d5], %f0;
DONE:
  ret;
}
)";

constexpr std::int64_t kThreads = 256;

}  // namespace

Result<std::unique_ptr<Kernels>> Kernels::Load(CudnnHandle& handle) {
  UCUDNN_ASSIGN_OR_RETURN(const DriverApi* driver, handle.driver());
  if (driver->ModuleLoadData == nullptr || driver->ModuleUnload == nullptr ||
      driver->ModuleGetFunction == nullptr || driver->LaunchKernel == nullptr) {
    return Fail(Code::kUnimplemented, "the driver cannot load kernels");
  }
  UCUDNN_ASSIGN_OR_RETURN(const auto scope, handle.Enter());
  std::unique_ptr<Kernels> kernels(new Kernels(handle, *driver));
  UCUDNN_RETURN_IF_ERROR(handle.CheckDriver(
      *driver, driver->ModuleLoadData(&kernels->module_, kSource),
      "cuModuleLoadData"));
  const auto find = [&](CUfunction* function, const char* name) {
    return handle.CheckDriver(
        *driver, driver->ModuleGetFunction(function, kernels->module_, name),
        "cuModuleGetFunction");
  };
  UCUDNN_RETURN_IF_ERROR(
      find(&kernels->subtract_labels_, "ucudnn_subtract_labels"));
  UCUDNN_RETURN_IF_ERROR(find(&kernels->dropout_, "ucudnn_dropout"));
  UCUDNN_RETURN_IF_ERROR(
      find(&kernels->dropout_backward_, "ucudnn_dropout_backward"));
  return kernels;
}

Kernels::~Kernels() {
  if (module_ == nullptr) return;
  const auto scope = handle_.Enter();
  // In a lost context nothing can be unloaded.
  if (scope) (void)driver_.ModuleUnload(module_);
}

Status Kernels::Launch(CUfunction function, std::int64_t count,
                       void** parameters) {
  if (count == 0) return {};
  if (count > std::numeric_limits<std::int32_t>::max()) {
    return Fail(Code::kUnimplemented,
                "a kernel on {} elements; less than 2^31 are accepted", count);
  }
  UCUDNN_ASSIGN_OR_RETURN(const CUstream stream, handle_.stream());
  return handle_.CheckDriver(
      driver_,
      driver_.LaunchKernel(
          function,
          static_cast<unsigned int>((count + kThreads - 1) / kThreads), 1, 1,
          static_cast<unsigned int>(kThreads), 1, 1, 0, stream, parameters,
          nullptr),
      "cuLaunchKernel");
}

Status Kernels::SubtractLabels(float* gradients, const std::int32_t* labels,
                               float* probabilities, std::int64_t count,
                               std::int64_t pixels, std::int64_t channels,
                               float scale, float inverse) {
  auto threads = static_cast<std::uint32_t>(count);
  auto pixels_of_image = static_cast<std::uint32_t>(pixels);
  auto classes = static_cast<std::uint32_t>(channels);
  void* parameters[] = {&gradients,       &labels,  &probabilities, &threads,
                        &pixels_of_image, &classes, &scale,         &inverse};
  return Launch(subtract_labels_, count, parameters);
}

Status Kernels::Dropout(const float* from, float* to, std::uint8_t* mask,
                        std::int64_t count, std::uint32_t seed,
                        std::uint32_t threshold, float factor) {
  auto threads = static_cast<std::uint32_t>(count);
  void* parameters[] = {&from, &to,        &mask,  &threads,
                        &seed, &threshold, &factor};
  return Launch(dropout_, count, parameters);
}

Status Kernels::DropoutBackward(const float* from, float* to,
                                const std::uint8_t* mask, std::int64_t count,
                                float factor) {
  auto threads = static_cast<std::uint32_t>(count);
  void* parameters[] = {&from, &to, &mask, &threads, &factor};
  return Launch(dropout_backward_, count, parameters);
}

}  // namespace ucudnn::cudnn
