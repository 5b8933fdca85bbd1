#ifndef UCUDNN_COORDINATOR_STORE_PACK_MEASUREMENTS_H_
#define UCUDNN_COORDINATOR_STORE_PACK_MEASUREMENTS_H_

#include "base/result.h"
#include "coordinator/store/sql_database.h"

namespace ucudnn {

// Part of the migration 0016_measured_batches: moves the points of the table
// `measurements`, which has a row for each, to `measured_batches`, and drops
// it.
Status PackMeasurements(SqlTransaction& sql);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_STORE_PACK_MEASUREMENTS_H_
