#include "coordinator/stores.h"

#include "coordinator/store/records.h"

namespace ucudnn {

Status Store::CheckWritable() {
  UCUDNN_RETURN_IF_ERROR(database->CheckRoom());
  return database->Write([](SqlTransaction& sql) -> Status {
    return sql.Execute("UPDATE identity SET writes = writes + 1");
  });
}

Result<std::string> Store::Epoch() { return database->Read(ReadEpoch); }

Result<std::unique_ptr<Store>> OpenStore(const std::string& url,
                                         TransactionObserver observer) {
  UCUDNN_ASSIGN_OR_RETURN(auto database,
                          OpenDatabase(url, std::move(observer)));
  return std::make_unique<Store>(std::move(database));
}

}  // namespace ucudnn
