// ucudnn_gpu_plain and ucudnn_gpu_handle: see gpu.h.
//
//   random FIRST COUNT FILE BATCH [direct]  random convolutions, results in
//                                      FILE; BATCH 0: random ones too
//   plan FIRST COUNT FILE BATCH        a plan that divides them all
//   compare FILE FILE LIMIT            0 if the results agree
//   time NETWORK.csv BATCH [PRECISION [total]]
//                                      an iteration's convolutions, and each
//   streams                            one convolution on two streams at once
//   semantics                          what cuDNN promises, and void*
//   overhead [MICRO-BATCHES]           of the handle, in host time

#include <cstring>

#include "gpu.h"

int main(int argc, char** argv) {
  const std::string command = argc > 1 ? argv[1] : "";
  if (command == "random" && argc >= 6) {
    return RunRandom(std::atoi(argv[2]), std::atoi(argv[3]), std::atoi(argv[5]),
                     argc > 6 && std::strcmp(argv[6], "direct") == 0, argv[4]);
  }
  if (command == "plan" && argc == 6) {
    return WritePlan(std::atoi(argv[2]), std::atoi(argv[3]), std::atoi(argv[5]),
                     argv[4]);
  }
  if (command == "compare" && argc == 5) {
    return Compare(argv[2], argv[3], std::atof(argv[4]));
  }
  if (command == "time" && argc >= 4) {
    return TimeNetwork(argv[2], std::atoi(argv[3]), argc > 4 ? argv[4] : "fp32",
                       argc < 6);
  }
  if (command == "streams") return RunStreams();
  if (command == "semantics") return CheckSemantics();
  if (command == "overhead") {
    return MeasureOverhead(argc > 2 ? std::atoi(argv[2]) : 4);
  }
  std::fprintf(stderr, "main.cc of tests/gpu/handle says what is accepted\n");
  return 2;
}
