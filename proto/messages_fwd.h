#ifndef UCUDNN_PROTO_MESSAGES_FWD_H_
#define UCUDNN_PROTO_MESSAGES_FWD_H_

// The requests and answers of ucudnn.v1, declared for headers that only pass
// them. Code that uses them includes ucudnn/v1/*.pb.h.

namespace ucudnn::v1 {

class Agent;
class AllocateRequest;
class Allocation;
class AnswerRevisionRequest;
class AnswerRevisionResponse;
class Campaign;
class CancelTasksRequest;
class CancelTasksResponse;
class DeleteRequest;
class DeleteResponse;
class Device;
class DrainedJob;
class FinishJobRequest;
class FinishJobResponse;
class Front;
class GetFrontRequest;
class GetJobRankRequest;
class GetProblemProfileRequest;
class GetProfileRequest;
class GetRequest;
class HeartbeatRequest;
class HeartbeatResponse;
class PruneRequest;
class PruneResponse;
class HoldAgentRequest;
class HoldAgentResponse;
class Job;
class JobRank;
class JobRevision;
class LeaseTasksRequest;
class LeaseTasksResponse;
class LeaveRequest;
class LeaveResponse;
class ListActionsResponse;
class ListAgentsResponse;
class ListCampaignsResponse;
class ListDevicesResponse;
class ListJobsResponse;
class ListNetworksResponse;
class ListPlansResponse;
class ListProfilesResponse;
class ListRequest;
class ListStepsResponse;
class ListTasksResponse;
class MeasureProgress;
class MeasureRequest;
class MeasuredDeviceModel;
class Network;
class Plan;
class PlanRequest;
class ProblemProfile;
class Profile;
class ProfileSummary;
class PutNetworkRequest;
class PutStepRequest;
class QueuedTask;
class RegisterJobRequest;
class RegisterJobResponse;
class RegisterRequest;
class RegisterResponse;
class ReplanJobRequest;
class ReportDeviceModelRequest;
class ReportDeviceModelResponse;
class ReportStepsRequest;
class ReportStepsResponse;
class ReportTaskRequest;
class ReportTaskResponse;
class StatusRequest;
class StatusResponse;
class Step;

}  // namespace ucudnn::v1

#endif  // UCUDNN_PROTO_MESSAGES_FWD_H_
