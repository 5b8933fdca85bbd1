#ifndef UCUDNN_COORDINATOR_LIMITS_H_
#define UCUDNN_COORDINATOR_LIMITS_H_

// How much the coordinator takes on at once, and for how long: no client may
// stop it for others. base/limits.h bounds the inputs that every program reads.

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace ucudnn {

// Texts of a request: names, reasons, errors, versions. Lists show up to 1000
// entries with several of them.
inline constexpr std::size_t kMaxTextBytes = 4096;
// Each text of a job's rank: its device, kind and host.
inline constexpr std::size_t kMaxRankTextBytes = 512;
// Networks are the largest requests: an ONNX model with its weights.
inline constexpr int kMaxRequestBytes = 64 << 20;
// Steps of frameworks, each of up to kMaxStepBytes (solver/step_file.h).
inline constexpr std::int64_t kMaxSteps = 10'000;
// Shapes of inputs that come with one; models have a few inputs.
inline constexpr int kMaxInputShapes = 64;
// A request as JSON. A plan for 16,384 ranks that names each rank's kind has
// 1 MiB. Values take up to 30 times their text in memory.
inline constexpr std::size_t kMaxJsonBytes = std::size_t{4} << 20;
// About how long a list's answer gets, on the wire; longer ones go on in the
// next page. As JSON it is two to five times as long; entries that become
// longer than that, such as networks, count more.
inline constexpr std::size_t kMaxPageBytes = std::size_t{4} << 20;

// The same for the points of a profile, each of some 250 bytes.
inline constexpr std::int64_t kMaxPagePoints = 10'000;

// What an agent may name in one call. One that serves 1024 devices and holds as
// many tasks for each as one call leases has 65,536 leases.
inline constexpr int kMaxDevicesPerAgent = 1024;
inline constexpr int kMaxTasksPerLease = 64;
inline constexpr int kMaxLeasesPerHeartbeat =
    kMaxDevicesPerAgent * kMaxTasksPerLease;
// Points in one report; a task measures some hundreds.
inline constexpr int kMaxPointsPerReport = 10'000;
// Step times in one report of a rank, which reports every few seconds.
inline constexpr int kMaxStepsPerReport = 100'000;
// Revisions in such a report; each has a row.
inline constexpr int kMaxBatchesPerReport = 100;

// HTTP connections at once; one address may have half of them. What comes on
// top takes the place of one that keeps us waiting, or is answered 503.
inline constexpr std::size_t kMaxHttpConnections = 128;
// The same for the listener of probes and metrics.
inline constexpr std::size_t kMaxProbeConnections = 16;
// How long a client may take to send a request, and to read an answer: so long,
// and a second more for each MiB.
inline constexpr std::chrono::milliseconds kHttpPatience{10'000};
// How long an idle HTTP connection stays open.
inline constexpr std::chrono::milliseconds kHttpIdle{60'000};
// The same, and for the head of a request, while more than half of the places
// are taken.
inline constexpr std::chrono::milliseconds kHttpCrowded{2'000};
// Bodies of HTTP requests, all together, that are read or answered at once;
// requests on top are answered 429. Two of the largest networks.
inline constexpr std::size_t kMaxHttpBodyBytes =
    2 * std::size_t{kMaxRequestBytes};
// What longer bodies took is given back to the system. Of JSON they are parsed
// one by one.
inline constexpr std::size_t kLongBodyBytes = std::size_t{64} << 10;
// Bytes of a request's line and headers. Each header of some bytes takes about
// 150 in memory.
inline constexpr std::size_t kMaxHttpHeadBytes = std::size_t{256} << 10;
// Of these, the path with its query.
inline constexpr std::size_t kMaxHttpTargetBytes = 8192;

// Calls that run at once, and that wait for it; what comes on top is answered
// RESOURCE_EXHAUSTED or 429. Calls that make plans, read networks or move whole
// profiles compute for long and take up to some 100 MB, so they have a gate of
// their own; the others mostly wait for the database, which writes one by one.
inline constexpr std::size_t kMaxLongCalls = 4;
inline constexpr std::size_t kMaxWaitingLongCalls = 32;
inline constexpr std::size_t kMaxLongCallsOfAHost = 16;
inline constexpr std::size_t kMaxShortCalls = 64;
inline constexpr std::size_t kMaxWaitingShortCalls = 96;
// Heartbeats cost little and have places of their own: however busy the
// coordinator is with other calls, it hears its agents. Those of 10,000 agents
// that come in 0.1 s, while its threads may wait for a processor, wait too: to
// refuse one costs as much as to answer it, and brings it back sooner.
inline constexpr std::size_t kMaxHeartbeats = 16;
inline constexpr std::size_t kMaxWaitingHeartbeats = 512;
// What gRPC sends at once over TLS; each connection keeps a buffer for it, by
// default of 16 KiB.
inline constexpr int kTlsRecordBytes = 4096;
// How long agents have to return to a coordinator that has started, if they
// time out sooner: after what was lost with it they wait up to 5 s, for an
// answer 10 s, and up to 10 s before they try again.
inline constexpr std::int64_t kReturnMs = 30'000;
// They have it again when so many fall silent together, as when another
// coordinator of theirs dies. So many handshakes of TLS take some 0.1 s of a
// core at best, and a second on a busy one.
inline constexpr std::int64_t kManyAgents = 100;
// Threads that move requests and answers of gRPC between its queue and those
// that run calls, and those that its reflection may hold.
inline constexpr int kRpcThreads = 2;
inline constexpr int kMaxReflectionThreads = 8;
// An answer counts as unread after so long; clients read most within
// milliseconds.
inline constexpr std::chrono::milliseconds kUnreadAfter{250};
// Beyond so many bytes of answers on their way, with what a call takes beside
// its answer, calls end of the connection that has most.
inline constexpr std::size_t kMaxUnreadBytes = std::size_t{128} << 20;
inline constexpr std::size_t kRpcCallBytes = std::size_t{16} << 10;
// After so long the call of an unread answer ends. An answer of kMaxPageBytes
// takes 10 s at 400 kB/s.
inline constexpr std::chrono::milliseconds kRpcPatience{20'000};
// Descriptors that gRPC's connections leave to others: REST, probes, the
// database, files. At most half of what the process may open.
inline constexpr std::size_t kReservedDescriptors = 256;
// What gRPC may hold in buffers: 10,000 idle connections take some 300 MB. Near
// the limit it closes idle ones.
inline constexpr std::size_t kMaxRpcBytes = std::size_t{512} << 20;
// Calls of one connection at once. A client of ours has fewer than ten.
inline constexpr int kMaxStreamsPerConnection = 100;

// About how often idle devices ask for work in a second, all together: the more
// there are, the longer each waits. A poll costs some 100 us.
inline constexpr std::int64_t kMaxPollsPerSecond = 1'000;

// What a plan may need: a dry run of Measure tells beforehand. A million tasks
// take some 500 MB of the database.
inline constexpr std::int64_t kMaxTasksPerPlan = 1'000'000;
// The kinds of a plan's ranks; clusters have up to ten.
inline constexpr std::size_t kMaxKindsPerPlan = 64;
// Tasks that are enqueued in one transaction, which keeps other writers waiting
// for some 50 ms.
inline constexpr std::size_t kTasksAtOnce = 1'000;

// What retention deletes in one transaction; of tasks, how many it looks at. A
// job has up to kMaxRanks rows of ranks.
inline constexpr std::int64_t kPrunedTasks = 5'000;
inline constexpr std::int64_t kPrunedSteps = 1'000;
inline constexpr std::int64_t kPrunedPlans = 100;
inline constexpr std::int64_t kPrunedJobs = 8;

// What one call may allot, and for how long it may search. Tables of times have
// an entry for each job, kind and image of the job's batch.
inline constexpr int kMaxJobsToAllocate = 64;
inline constexpr std::int64_t kMaxDevicesToAllocate = 1024;
inline constexpr std::int64_t kMaxTimesToAllocate = 4'000'000;
inline constexpr std::chrono::milliseconds kAllocateTime{1'000};
inline constexpr std::chrono::milliseconds kMaxAllocateTime{10'000};

// Plans kept as gRPC sends them, their outlines for lists, and requests whose
// plans are known. A plan for ResNet-50 on three kinds has some 150 kB.
inline constexpr std::size_t kMaxCachedPlanBytes = std::size_t{64} << 20;
inline constexpr std::size_t kMaxCachedOutlineBytes = std::size_t{16} << 20;
inline constexpr std::size_t kMaxCachedRequestBytes = std::size_t{8} << 20;

// How long stopping may take, whatever is open. Supervisors commonly kill after
// 10 s.
inline constexpr std::chrono::seconds kStopLimit{8};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_LIMITS_H_
