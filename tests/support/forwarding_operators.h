#ifndef UCUDNN_TESTS_SUPPORT_FORWARDING_OPERATORS_H_
#define UCUDNN_TESTS_SUPPORT_FORWARDING_OPERATORS_H_

// Operators that pass their calls on to others; subclasses note or change some.

#include "device/operators/operators.h"

namespace ucudnn::test {

class ForwardingOperators : public Operators {
 public:
  // `operators` must outlive it.
  explicit ForwardingOperators(Operators& operators) : operators_(operators) {}

  Status Relu(BatchSize batch, std::int64_t elements, const float* x,
              float* y) override {
    return operators_.Relu(batch, elements, x, y);
  }
  Status ReluBackward(BatchSize batch, std::int64_t elements, const float* y,
                      const float* dy, float beta, float* dx) override {
    return operators_.ReluBackward(batch, elements, y, dy, beta, dx);
  }
  Status Activate(BatchSize batch, std::int64_t elements,
                  const Activation& activation, const float* x,
                  float* y) override {
    return operators_.Activate(batch, elements, activation, x, y);
  }
  Status ActivateBackward(BatchSize batch, std::int64_t elements,
                          const Activation& activation, const float* saved,
                          const float* dy, float beta, float* dx) override {
    return operators_.ActivateBackward(batch, elements, activation, saved, dy,
                                       beta, dx);
  }
  Status CopyRows(std::int64_t planes, std::int64_t rows, std::int64_t width,
                  const float* a, const PlaneStrides& strides, float beta,
                  float* out, const PlaneStrides& out_strides) override {
    return operators_.CopyRows(planes, rows, width, a, strides, beta, out,
                               out_strides);
  }
  Status Multiply(std::int64_t count, std::int64_t span, const float* a,
                  const float* b, float beta, float* out) override {
    return operators_.Multiply(count, span, a, b, beta, out);
  }
  Status SumProducts(std::int64_t count, std::int64_t span, const float* a,
                     const float* b, float beta, float* out) override {
    return operators_.SumProducts(count, span, a, b, beta, out);
  }
  Status Resize(BatchSize batch, const Resizing& resizing, const float* x,
                float* y) override {
    return operators_.Resize(batch, resizing, x, y);
  }
  Status ResizeBackward(BatchSize batch, const Resizing& resizing,
                        const float* dy, float beta, float* dx) override {
    return operators_.ResizeBackward(batch, resizing, dy, beta, dx);
  }
  Status NormaliseLocally(BatchSize batch, const LocalResponse& response,
                          const float* x, float* y) override {
    return operators_.NormaliseLocally(batch, response, x, y);
  }
  Status NormaliseLocallyBackward(BatchSize batch,
                                  const LocalResponse& response, const float* x,
                                  const float* y, const float* dy, float beta,
                                  float* dx) override {
    return operators_.NormaliseLocallyBackward(batch, response, x, y, dy, beta,
                                               dx);
  }
  Status Pool(BatchSize batch, const Pooling& pooling, const float* x,
              float* y) override {
    return operators_.Pool(batch, pooling, x, y);
  }
  Status PoolBackward(BatchSize batch, const Pooling& pooling, const float* x,
                      const float* y, const float* dy, float beta,
                      float* dx) override {
    return operators_.PoolBackward(batch, pooling, x, y, dy, beta, dx);
  }
  Status Normalise(BatchSize batch, const Normalisation& normalisation,
                   const float* x, const float* parameters, float* y,
                   float* statistics) override {
    return operators_.Normalise(batch, normalisation, x, parameters, y,
                                statistics);
  }
  Status NormaliseBackward(BatchSize batch, const Normalisation& normalisation,
                           const float* x, const float* dy,
                           const float* parameters, const float* statistics,
                           float beta, float* dx, float gradients_beta,
                           float* gradients) override {
    return operators_.NormaliseBackward(batch, normalisation, x, dy, parameters,
                                        statistics, beta, dx, gradients_beta,
                                        gradients);
  }
  Status SumForNormalise(BatchSize batch, const ImageExtent& extent,
                         const float* x, double* sums) override {
    return operators_.SumForNormalise(batch, extent, x, sums);
  }
  Status NormaliseBySums(BatchSize batch, const Normalisation& normalisation,
                         const float* x, const double* sums, std::int64_t count,
                         const float* parameters, float* y,
                         float* statistics) override {
    return operators_.NormaliseBySums(batch, normalisation, x, sums, count,
                                      parameters, y, statistics);
  }
  Status SumForNormaliseBackward(BatchSize batch,
                                 const Normalisation& normalisation,
                                 const float* x, const float* dy,
                                 const float* statistics, double* sums,
                                 float gradients_beta,
                                 float* gradients) override {
    return operators_.SumForNormaliseBackward(batch, normalisation, x, dy,
                                              statistics, sums, gradients_beta,
                                              gradients);
  }
  Status NormaliseBackwardBySums(BatchSize batch,
                                 const Normalisation& normalisation,
                                 const float* x, const float* dy,
                                 const double* sums, std::int64_t count,
                                 const float* parameters,
                                 const float* statistics, float beta,
                                 float* dx) override {
    return operators_.NormaliseBackwardBySums(batch, normalisation, x, dy, sums,
                                              count, parameters, statistics,
                                              beta, dx);
  }
  Status UpdateRunning(const Normalisation& normalisation,
                       const float* statistics, std::int64_t count,
                       float momentum, float* running) override {
    return operators_.UpdateRunning(normalisation, statistics, count, momentum,
                                    running);
  }
  Status NormaliseByRunning(BatchSize batch, const Normalisation& normalisation,
                            const float* x, const float* parameters,
                            const float* running, float* y) override {
    return operators_.NormaliseByRunning(batch, normalisation, x, parameters,
                                         running, y);
  }
  Status Update(std::int64_t count, const UpdateRule& rule,
                const float* gradients, float* velocities,
                float* weights) override {
    return operators_.Update(count, rule, gradients, velocities, weights);
  }
  Status AddBias(BatchSize batch, const ImageExtent& extent, const float* bias,
                 float* y) override {
    return operators_.AddBias(batch, extent, bias, y);
  }
  Status BiasBackward(BatchSize batch, const ImageExtent& extent,
                      const float* dy, float beta, float* dbias) override {
    return operators_.BiasBackward(batch, extent, dy, beta, dbias);
  }
  Status Blend(BatchSize batch, std::int64_t elements, float alpha,
               const float* a, float beta, float* out) override {
    return operators_.Blend(batch, elements, alpha, a, beta, out);
  }
  Status SoftmaxLoss(BatchSize batch, const ImageExtent& extent, const float* x,
                     const std::int32_t* labels, float scale, float* dx,
                     float* probabilities) override {
    return operators_.SoftmaxLoss(batch, extent, x, labels, scale, dx,
                                  probabilities);
  }
  Status Dropout(BatchSize batch, std::int64_t elements,
                 const DropoutChoice& choice, const float* x, float* y,
                 std::uint8_t* mask) override {
    return operators_.Dropout(batch, elements, choice, x, y, mask);
  }
  Status DropoutBackward(BatchSize batch, std::int64_t elements, double ratio,
                         const float* dy, const std::uint8_t* mask,
                         float* dx) override {
    return operators_.DropoutBackward(batch, elements, ratio, dy, mask, dx);
  }

 private:
  Operators& operators_;
};

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_SUPPORT_FORWARDING_OPERATORS_H_
