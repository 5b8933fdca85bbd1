// An external C++17 program that uses all of the session's interface. Prints a
// line that begins with "ok" on every rank, or what went wrong.

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <ucudnn/mpi.hpp>

namespace {

constexpr const char* kNetwork =
    "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups\n"
    "conv1,3,8,8,4,3,3,1,1,1,1,1\n";

void Use() {
  ucudnn::mpi::Options options;
  options.Set("network", "consumer").Set("network_csv", kNetwork);
  options.Set("batch", "5").Set("device", "cpu:1");
  try {
    options.Set("colour", "red");
    throw std::logic_error("an unknown option is accepted");
  } catch (const ucudnn::mpi::Error& error) {
    if (error.status() != UCUDNN_INVALID_ARGUMENT) throw;
  }
  ucudnn::mpi::Session session(MPI_COMM_WORLD, options);
  std::vector<float> gradients(1000, 1.0F);
  session.AllReduce(gradients.data(), gradients.size());
  for (const float gradient : gradients) {
    if (gradient < 0.9999F || gradient > 1.0001F) {
      throw std::logic_error("the mean of ones is not one");
    }
  }
  session.ReportStep(1.5);
  const bool changed = session.Refresh();
  int active = 0;
  MPI_Comm_size(session.ActiveComm(), &active);
  std::printf("ok rank %d: batch %d of %d, %zu kernels, changed %d, %d active\n",
              session.rank(), static_cast<int>(session.batch()),
              static_cast<int>(session.global_batch()),
              session.kernels().size(), changed ? 1 : 0, active);
  session.Finalize();
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  try {
    Use();
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return 0;
}
