#include "coordinator/store/campaigns.h"

#include "coordinator/store/records.h"

namespace ucudnn {
namespace {

constexpr char kCampaignColumns[] =
    "id, key, request, network_revision, ended_before, progress, created_ms, "
    "updated_ms, finished_ms";

Result<CampaignRecord> CampaignOf(const SqlRow& row) {
  return CampaignRecord{.id = row.Int(0),
                        .key = row.Text(1),
                        .request = row.Bytes(2),
                        .network_revision = row.Int(3),
                        .ended_before = row.Int(4),
                        .progress = row.Bytes(5),
                        .created_ms = row.Int(6),
                        .updated_ms = row.Int(7),
                        .finished_ms = row.Int(8)};
}

}  // namespace

Result<std::int64_t> Campaigns::BeginCampaign(const CampaignRecord& campaign) {
  UCUDNN_RETURN_IF_ERROR(CheckKey("the campaign's key", campaign.key));
  return database_.Write([&](SqlTransaction& sql) -> Result<std::int64_t> {
    UCUDNN_ASSIGN_OR_RETURN(
        const auto last,
        sql.Query(fmt::format("SELECT {} FROM campaigns WHERE key = $1 "
                              "ORDER BY id DESC LIMIT 1",
                              kCampaignColumns),
                  {campaign.key}));
    if (!last.empty()) {
      UCUDNN_ASSIGN_OR_RETURN(const CampaignRecord known,
                              CampaignOf(last.front()));
      if (known.finished_ms == 0) return known.id;
      if (campaign.created_ms - known.finished_ms < kCampaignGoesOnMs) {
        UCUDNN_RETURN_IF_ERROR(sql.Execute(
            "UPDATE campaigns SET finished_ms = 0 WHERE id = $1", {known.id}));
        return known.id;
      }
    }
    UCUDNN_ASSIGN_OR_RETURN(
        const auto added,
        sql.Query("INSERT INTO campaigns (key, request, network_revision, "
                  "ended_before, progress, created_ms, updated_ms, "
                  "finished_ms) VALUES ($1, $2, $3, $4, $5, $6, $7, 0) "
                  "RETURNING id",
                  {campaign.key, SqlBytes{campaign.request},
                   campaign.network_revision, campaign.ended_before,
                   SqlBytes{campaign.progress}, campaign.created_ms,
                   campaign.updated_ms}));
    return added.at(0).Int(0);
  });
}

Result<std::int64_t> Campaigns::UpdateCampaign(const std::string& key,
                                               const std::string& progress,
                                               bool ended, UnixMillis now_ms) {
  return database_.Write([&](SqlTransaction& sql) -> Result<std::int64_t> {
    UCUDNN_ASSIGN_OR_RETURN(
        const auto updated,
        sql.Query(
            "UPDATE campaigns SET progress = $1, updated_ms = $2, "
            "finished_ms = CAST($3 AS BIGINT) WHERE key = $4 AND "
            "finished_ms = 0 AND updated_ms <= $2 RETURNING id",
            {SqlBytes{progress}, now_ms, ended ? now_ms : UnixMillis{0}, key}));
    return updated.empty() ? 0 : updated[0].Int(0);
  });
}

Result<std::vector<CampaignRecord>> Campaigns::ListCampaigns(
    std::int64_t limit, std::int64_t before_id) {
  UCUDNN_RETURN_IF_ERROR(CheckLimit(limit));
  return database_.Read([&](SqlTransaction& sql) {
    return Records(
        sql.Query(fmt::format("SELECT {} FROM campaigns "
                              "WHERE CAST($1 AS BIGINT) <= 0 OR id < $1 "
                              "ORDER BY id DESC LIMIT $2",
                              kCampaignColumns),
                  {before_id, limit}),
        CampaignOf);
  });
}

Result<std::vector<CampaignRecord>> Campaigns::ListRunningCampaigns(
    std::int64_t limit) {
  UCUDNN_RETURN_IF_ERROR(CheckLimit(limit));
  return database_.Read([&](SqlTransaction& sql) {
    return Records(
        sql.Query(fmt::format("SELECT {} FROM campaigns WHERE finished_ms = 0 "
                              "ORDER BY updated_ms, id LIMIT $1",
                              kCampaignColumns),
                  {limit}),
        CampaignOf);
  });
}

Result<CampaignRecord> Campaigns::GetCampaign(std::int64_t id) {
  return database_.Read([&](SqlTransaction& sql) {
    return OneRecord(
        sql.Query(fmt::format("SELECT {} FROM campaigns WHERE id = $1",
                              kCampaignColumns),
                  {id}),
        CampaignOf, fmt::format("campaign {}", id));
  });
}

}  // namespace ucudnn
