/* An external program that plans and runs one convolution on the CPU. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucudnn/conv.h>

/* A 1x1 filter, which multiplies each element of four images by its weight. */
static const char kProblem[] =
    "forward-c1-h3w3-k1-r1s1-pad0x0-str1x1-dil1x1-g1-FP32-NCHW";
static const char kMalformed[] = "forward-c1-h3w3-k1-r1s1-pad0x0-FP32-NCHW";
enum { kBatch = 4, kElements = kBatch * 9, kAlignment = 64 };

int main(void) {
  ucudnn_conv_device* device = NULL;
  ucudnn_conv* conv = NULL;
  if (ucudnn_conv_open_cpu(1, &device) != 0 ||
      ucudnn_conv_plan(device, kProblem, kBatch, 1 << 20, &conv) != 0) {
    fprintf(stderr, "%s\n", ucudnn_conv_last_error());
    return 1;
  }
  ucudnn_conv* none = NULL;
  if (strstr(ucudnn_conv_text(conv), " × ") == NULL ||
      ucudnn_conv_plan(device, kMalformed, kBatch, 1, &none) == 0 ||
      strstr(ucudnn_conv_last_error(), kMalformed) == NULL) {
    fprintf(stderr, "wrong texts: %s; %s\n", ucudnn_conv_text(conv),
            ucudnn_conv_last_error());
    return 1;
  }
  const int64_t size = ucudnn_conv_workspace(conv);
  const size_t rounded = (size_t)(size / kAlignment + 1) * kAlignment;
  void* workspace = aligned_alloc(kAlignment, rounded);
  float x[kElements];
  float y[kElements];
  const float w = 2;
  for (int i = 0; i < kElements; ++i) x[i] = (float)i;
  const int status =
      ucudnn_conv_run(conv, NULL, x, &w, y, 1.0f, 0.0f, workspace, size);
  int right = status == 0;
  for (int i = 0; i < kElements && right; ++i) right = y[i] == 2 * x[i];
  printf("%s %d %s\n", right ? "ok" : "wrong", status, ucudnn_conv_text(conv));
  ucudnn_conv_free(conv);
  ucudnn_conv_close(device);
  free(workspace);
  return right ? 0 : 1;
}
