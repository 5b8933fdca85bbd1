#ifndef UCUDNN_COORDINATOR_STORE_JOB_ROWS_H_
#define UCUDNN_COORDINATOR_STORE_JOB_ROWS_H_

// What the parts of Jobs share, within transactions.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "coordinator/store/jobs.h"
#include "coordinator/store/records.h"

namespace ucudnn {

// The columns that RevisionOf reads, in its order.
inline constexpr std::string_view kRevisionColumns =
    "revision, plan, reason, rejected, created_ms, adopted_ms, proposed, "
    "(SELECT predicted_ns FROM plans WHERE plans.id = plan)";
Result<JobRevisionRecord> RevisionOf(const SqlRow& row);
// The job's newest revision for its ranks to adopt.
Result<JobRevisionRecord> NewestRevision(SqlTransaction& sql,
                                         const std::string& job);
// The plan's predicted time; absent if there is no such plan.
Result<std::optional<Nanoseconds>> PredictedBy(SqlTransaction& sql,
                                               std::int64_t plan);
// Deletes the job with its ranks, revisions and steps.
Status DeleteJobRows(SqlTransaction& sql, const std::string& job);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_STORE_JOB_ROWS_H_
