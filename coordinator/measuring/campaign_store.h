#ifndef UCUDNN_COORDINATOR_MEASURING_CAMPAIGN_STORE_H_
#define UCUDNN_COORDINATOR_MEASURING_CAMPAIGN_STORE_H_

// Campaigns: requests for plans that had to be measured for, with their
// progress when it was last looked at. stores.h states what holds for every
// call.

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "coordinator/store/unix_millis.h"

namespace ucudnn {

class SqlDatabase;

struct CampaignRecord {
  std::int64_t id = 0;  // assigned by the store; ascending, with gaps
  std::string key;      // hash of the request and the network's revision
  std::string request;  // opaque to the store, as is the progress
  std::int64_t network_revision = 0;
  std::int64_t ended_before = 0;  // tasks that had ended when it began
  std::string progress;           // at updated_ms
  UnixMillis created_ms = 0;
  UnixMillis updated_ms = 0;
  UnixMillis finished_ms = 0;  // 0: it runs

  friend bool operator==(const CampaignRecord&,
                         const CampaignRecord&) = default;
};

// A campaign that is asked for again this soon after its end goes on: the
// shares of unlike ranks are measured after all else.
inline constexpr UnixMillis kCampaignGoesOnMs = 60'000;

class CampaignStore {
 public:
  explicit CampaignStore(SqlDatabase& database) : database_(database) {}

  // Adds a campaign that begins at `campaign.created_ms`, unless the last one
  // with its key runs. If that ended less than kCampaignGoesOnMs ago, it runs
  // again. Id and finished_ms are ignored. Returns the id.
  Result<std::int64_t> BeginCampaign(const CampaignRecord& campaign);
  // Stores the progress at `now_ms` of the running campaign with this key, and
  // ends it if `ended`; returns its id. Changes nothing and returns 0 if none
  // runs or if the stored progress is later.
  Result<std::int64_t> UpdateCampaign(const std::string& key,
                                      const std::string& progress, bool ended,
                                      UnixMillis now_ms);
  // Newest first; if `before_id` is positive, only those with smaller ids.
  Result<std::vector<CampaignRecord>> ListCampaigns(std::int64_t limit,
                                                    std::int64_t before_id);
  // The running ones, those first whose progress is oldest.
  Result<std::vector<CampaignRecord>> ListRunningCampaigns(std::int64_t limit);
  Result<CampaignRecord> GetCampaign(std::int64_t id);  // kNotFound

 private:
  SqlDatabase& database_;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_MEASURING_CAMPAIGN_STORE_H_
